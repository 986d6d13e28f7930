"""Import language models of linear recurrences as the library transformers saves them: a folder with config.json,
model.safetensors and the files of its tokenizer.

`checkpoint` reads what all have, `tokenizer` their tokens; one module for each kind of model maps its tensors.
"""
