# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Generate text
#
# A language model generates one token at a time, and each token attends to the keys and values of
# all tokens before it. In this tutorial you train a tokenizer and a tiny Llama on a short text,
# export one step of the model with a cache of any length, and generate text with a `Session` that
# keeps the cache between the steps. Nothing is downloaded.
#
# You need `opinfo[torch]` and g++.

# %%
import os

os.environ.update(TVM_NUM_THREADS="1", OMP_NUM_THREADS="1")

import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import opinfo

torch.manual_seed(0)
torch.set_num_threads(1)
work = Path(tempfile.mkdtemp(prefix="opinfo-tutorial-"))

# %% [markdown]
# ## A tokenizer and a model
#
# The tokenizer merges frequent pairs of bytes. The model has one layer with four heads, two of
# which share keys and values. A few seconds of training are enough to learn the text by heart.

# %%
text = """The loop was split, the loop was fused, and then its name was gone.
The block that held the matrix knew not which product it was on.
But every index that it read and every sum that it had made
still told the one who read the terms what operator they obeyed.
"""
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator([text], trainers.BpeTrainer(vocab_size=160, show_progress=False))
tokens = tokenizer.encode(text).ids
assert tokenizer.decode(tokens) == text
print(len(text), "characters are", len(tokens), "tokens")

# %%
config = LlamaConfig(
    vocab_size=tokenizer.get_vocab_size(),
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=2,
    attn_implementation="eager",
)
model = LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
batch = torch.tensor([tokens])
for _ in range(150):
    loss = model(input_ids=batch, labels=batch).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
assert loss < 0.1

# %% [markdown]
# ## One step as a program
#
# A step takes tokens and the keys and values so far, and returns logits and the longer keys and
# values. Both lengths are dynamic, so one program serves the prompt and every token after it.


# %%
class Step(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, past):
        out = self.model(input_ids=ids, past_key_values=DynamicCache(past), use_cache=True)
        return out.logits, [(layer.keys, layer.values) for layer in out.past_key_values.layers]


any_length = torch.export.Dim.DYNAMIC
shape = (1, config.num_key_value_heads, 5, config.head_dim)  # batch, heads, tokens, size
past = [(torch.zeros(shape), torch.zeros(shape))]
with torch.no_grad():
    program = torch.export.export(
        Step(model),
        (batch[:, :3], past),
        dynamic_shapes=({1: any_length}, [({2: any_length}, {2: any_length})]),
        strict=False,
    )
torch.export.save(program, work / "llama.pt2")
module = opinfo.load(work / "llama.pt2")
print(*module["main"].params, sep=", ")

# %% [markdown]
# ## Caches in place
#
# As exported, every step copies the whole cache to append one row. `AppendToCaches` finds the
# parameters that come back with new rows, gives them room, and stores the rows in place. They are
# no longer results.
#
# `shapes="jit"` compiles generic kernels for all lengths, and kernels for one token in the
# background. No kernel depends on how many tokens are cached, so nothing is compiled per token.

# %%
module = opinfo.transform.AppendToCaches()(module)
compiled = opinfo.compile(module, shapes="jit")
print(compiled.signatures["main"])

# %% [markdown]
# ## Generate
#
# `session.start` processes the prompt and returns a `Generation`, which holds the caches; `step`
# processes the next tokens. Here the next token is always the most likely one. To sample, draw from
# `softmax(logits / temperature)` instead.


# %%
def generate(session, prompt, count):
    state = session.start(np.array([tokenizer.encode(prompt).ids]))
    out = []
    for _ in range(count):
        out.append(int(state.result.numpy()[0, -1].argmax()))
        state.step(np.array([[out[-1]]]))
    return tokenizer.decode(out), state


session = opinfo.Session(compiled)
prompt = "The loop was split"
continuation, state = generate(session, prompt, 50)
print(prompt + continuation)

assert text.startswith(prompt + continuation)
print(state.length, "tokens are cached; there is room for", state.capacity)

# %% [markdown]
# The result is what PyTorch computes for the whole text at once:

# %%
with torch.no_grad():
    expected = model(input_ids=batch[:, : state.length]).logits[:, -1]
np.testing.assert_allclose(state.result.numpy()[:, -1], expected, rtol=1e-3, atol=1e-3)

# %% [markdown]
# ## Fork and reset
#
# A prompt that several texts share is processed once: `fork` copies the rows in use. `reset` drops
# rows, for example those of tokens that a user has edited.

# %%
shared = session.start(np.array([tokenizer.encode("But every index").ids]))
first, second = shared.fork(), shared.fork()
first.step(np.array([tokenizer.encode(" that it read").ids]))
second.step(np.array([tokenizer.encode(" was split").ids]))
print(shared.length, first.length, second.length)
assert (first.result.numpy()[0, -1] != second.result.numpy()[0, -1]).any()

length = shared.length
first.reset(length)
first.step(np.array([tokenizer.encode(" was split").ids]))
np.testing.assert_allclose(first.result.numpy(), second.result.numpy(), rtol=1e-3, atol=1e-3)

# %%
session.close()
shutil.rmtree(work)

# %% [markdown]
# ## Next steps
#
# - [Caches of language models](../guides/language-model-caches.md): what counts as a cache, and
#   modules of several functions.
# - [Serve a model with symbolic shapes](04_symbolic_shapes.md): keep kernels on disk.
# - The same works with a module built by `relax.frontend.nn`, with `prefill` and `decode` as
#   functions of their own: `session.start(x, function="prefill", step="decode")`.
