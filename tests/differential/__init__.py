"""Random ONNX models through Stretto and through other engines: `./dev fuzz-models`.

`tables` says how each operator is drawn, `draft.py` grows a model node by node, `check.py` runs it
through Stretto and compares, and `__main__.py` does so for many models in child processes."""
