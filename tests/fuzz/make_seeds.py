"""Writes the seed models of the importer's fuzzer, one small model per feature, and those of the
artefact's fuzzer: the same models, optimised by the `stretto` command on the PATH.

python tests/fuzz/make_seeds.py

tests/fuzz/link_seeds.py writes the seeds of the fuzzers of the gradient engine.
"""

import os
import pathlib
import struct
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent / "onnx"
ARTEFACTS = pathlib.Path(__file__).parent / "artefact"


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def floats(name, *shape):
    count = int(np.prod(shape))
    return tensor(name, (np.arange(count, dtype=np.float32).reshape(shape) - count / 2) / 8)


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(" "), outputs.split(" "), name=op.lower(), **attributes)


def save(name, nodes, inputs, outputs, constants=(), opset=17, functions=(), domains=()):
    made = [o.partition(":") for o in outputs.split()]  # a name, or name:TYPE
    results = [info(o, None, getattr(TensorProto, kind or "FLOAT")) for o, _, kind in made]
    graph = helper.make_graph(nodes, name, inputs, results, constants)
    imports = [helper.make_opsetid("", opset)] + [
        helper.make_opsetid(d, 4 if d == "ai.onnx.ml" else 1) for d in domains]
    model = helper.make_model(graph, opset_imports=imports, functions=functions, producer_name="seeds",
                              producer_version="1", ir_version=8)
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString())


def convolutions():
    save("convolution", [
        node("Conv", "x w b", "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", "a s b m v", "n", epsilon=1e-3),
        node("Relu", "n", "r"), node("MaxPool", "r", "p", kernel_shape=[2, 2], ceil_mode=1),
        node("GlobalAveragePool", "p", "g"), node("Flatten", "g", "f"),
        node("Gemm", "f q c", "y", transB=1)],
        [info("x", ["N", 3, 8, 8])], "y",
        [floats("w", 4, 3, 3, 3), floats("b", 4), floats("s", 4), floats("m", 4),
         tensor("v", np.ones(4, np.float32)), floats("q", 2, 4), floats("c", 2)])
    save("grouped", [
        node("Conv", "x w", "a", group=2, auto_pad="SAME_UPPER", dilations=[1, 2]),
        node("ConvTranspose", "a t", "b", strides=[2, 2], output_padding=[1, 1]),
        node("AveragePool", "b", "y", kernel_shape=[3, 3], count_include_pad=1, pads=[1, 1, 1, 1])],
        [info("x", [1, 4, 6, 6])], "y", [floats("w", 4, 2, 3, 3), floats("t", 4, 2, 2, 2)])


def attention():
    save("attention", [
        node("Transpose", "x", "k", perm=[0, 2, 1]), node("MatMul", "x k", "s"),
        node("Div", "s d", "t"), node("Softmax", "t", "p", axis=-1), node("MatMul", "p x", "o"),
        node("Add", "o x", "r"), node("LayerNormalization", "r g", "n", axis=-1),
        node("Erf", "n", "e"), node("Where", "m e n", "y")],
        [info("x", [1, 4, 6]), info("m", [1, 4, 6], TensorProto.BOOL)], "y",
        [tensor("d", np.float32(2.5)), floats("g", 6)])


def shapes():
    save("shape_arithmetic", [
        node("Shape", "x", "s"), node("Gather", "s i", "n", axis=0), node("Unsqueeze", "n z", "u"),
        node("Concat", "u minus", "t", axis=0), node("Reshape", "x t", "y"),
        node("Slice", "s last end z o", "h"), node("ConstantOfShape", "h", "c", value=tensor("", [1.5])),
        node("Expand", "c s", "e"), node("Cast", "e", "f", to=TensorProto.INT32),
        node("ReduceSum", "f z", "q", keepdims=0), node("Split", "x", "l r", axis=1),
        node("Squeeze", "l", "w"), node("Range", "i limit i1", "v"), node("Pad", "r pads", "out")],
        [info("x", [2, 4, 3])], "y q w v out",
        [tensor("i", 0), tensor("i1", 1), tensor("limit", 5), tensor("z", [0]), tensor("o", [1]),
         tensor("minus", [-1]), tensor("last", [2]), tensor("end", [3]), tensor("pads", [0, 0, 1, 0, 0, 1])])
    save("selection", [
        node("TopK", "x k", "v i", axis=1), node("GatherElements", "x i", "g", axis=1),
        node("ScatterND", "x j u", "s"), node("OneHot", "h depth pair", "o"),
        node("ArgMax", "s", "a", axis=-1), node("CumSum", "x axis", "c"), node("Trilu", "x", "t"),
        node("Einsum", "x x", "e", equation="ij,kj->ik"), node("Tile", "x reps", "r"),
        node("Resize", "image  scales", "z", mode="linear")],
        [info("x", [3, 4]), info("image", [1, 1, 4, 4]), info("h", [2], TensorProto.INT64)],
        "g o a c t e r z",
        [tensor("k", [2]), tensor("j", [[0], [2]]), floats("u", 2, 4), tensor("depth", 3),
         tensor("pair", [0.0, 1.0]), tensor("axis", 0), tensor("reps", [2, 1]),
         tensor("scales", np.array([1, 1, 2, 2], np.float32))])


def padding():
    save("padding", [
        node("Pad", "x p zero axes", "a", mode="constant"),
        node("Pad", "a none zero empty", "b", mode="edge"),
        node("Pad", "b p zero axes", "y", mode="reflect")],
        [info("x", [1, 2, 4, 5])], "y",
        [tensor("p", np.array([1, 0, 2, 1], np.int64)), tensor("axes", np.array([2, 3], np.int64)),
         tensor("none", np.zeros(0, np.int64)), tensor("empty", np.zeros(0, np.int64)),
         tensor("zero", np.float32(0))], opset=18)


def old_forms():
    save("opset_7", [
        node("Upsample", "x", "a", scales=[1.0, 1.0, 2.0, 2.0], mode="nearest"),
        node("Slice", "a", "b", starts=[1], ends=[3], axes=[2]),
        node("Pad", "b", "c", pads=[0, 0, 1, 0, 0, 0, 1, 0], value=0.5),
        node("Clip", "c", "d", min=0.0, max=6.0), node("Dropout", "d", "e mask", ratio=0.5),
        node("ReduceMean", "e", "f", axes=[2, 3], keepdims=0), node("Split", "f", "l r", axis=1),
        node("Unsqueeze", "l", "u", axes=[2]), node("Squeeze", "u", "s", axes=[2]),
        node("TopK", "s", "v i", k=1), node("Softmax", "e", "y")],
        [info("x", [1, 4, 3, 3])], "y v i r", opset=7)
    save("opset_10", [
        node("Resize", "x scales", "a"), node("BatchNormalization", "a s s s s", "y mean var sm sv"),
        node("LogSoftmax", "y", "z", axis=2)],
        [info("x", [1, 2, 3, 3])], "z",
        [tensor("scales", np.array([1, 1, 2, 2], np.float32)), tensor("s", np.ones(2, np.float32))],
        opset=10)
    save("opset_18", [node("GroupNormalization", "x s s", "y", num_groups=2)], [info("x", [1, 4, 3, 3])],
         "y", [floats("s", 2)], opset=18)


def structure():
    reference = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    inner = helper.make_node("LeakyRelu", ["x"], ["y"])
    inner.attribute.append(reference)
    leaky = helper.make_function("local", "Leaky", ["x"], ["y"], [inner],
                                 [helper.make_opsetid("", 17)], attributes=["slope"])
    twice = helper.make_function(
        "local", "Twice", ["x"], ["y"],
        [helper.make_node("Leaky", ["x"], ["h"], domain="local", slope=0.25),
         helper.make_node("Leaky", ["h"], ["y"], domain="local", slope=0.5)],
        [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)])
    save("functions", [helper.make_node("Twice", ["x"], ["y"], domain="local", name="call")],
         [info("x", [2, 3])], "y", functions=[leaky, twice], domains=["local"])
    branch = {name: helper.make_graph([helper.make_node(op, ["x"], [op])], name, [], [info(op, None)])
              for name, op in (("then_branch", "Relu"), ("else_branch", "Neg"))}
    save("branch", [node("Shape", "x", "s"), node("Size", "s", "r"), node("Equal", "r two", "c"),
                    node("If", "c", "y", **branch)], [info("x", [2, 3])], "y", [tensor("two", 2)])
    save("constants", [
        helper.make_node("Constant", [], ["a"], value_float=1.5),
        helper.make_node("Constant", [], ["b"], value_ints=[2, 3]),
        helper.make_node("Constant", [], ["c"], value=tensor("", np.ones((2, 3), np.float16))),
        helper.make_node("Cast", ["c"], ["d"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["x", "b"], ["e"]), helper.make_node("Add", ["e", "d"], ["f"]),
        helper.make_node("Mul", ["f", "a"], ["y"])], [info("x", [6])], "y")
    typed = [helper.make_tensor(f"t{kind}", kind, [2], [1, 0]) for kind in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11,
                                                                            12, 13, 16)]
    save("typed_fields", [node("Identity", "x", "y")], [info("x", [1])], "y", typed)


def values():
    """Models that run in stages: what they do depends on the values of their inputs."""
    scalar, flag = info("n", [], TensorProto.INT64), info("c", [], TensorProto.BOOL)
    branch = {name: helper.make_graph([helper.make_node(op, ["x"], [op])], name, [], [info(op, None)])
              for name, op in (("then_branch", "Relu"), ("else_branch", "NonZero"))}
    branch["else_branch"].node.append(helper.make_node("Cast", ["NonZero"], ["f"], to=TensorProto.FLOAT))
    branch["else_branch"].output[0].name = "f"
    save("choice", [node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "c"),
                    node("If", "c", "y", **branch)], [info("x", [2, 3])], "y",
         [tensor("zero", np.float32(0))])
    body = helper.make_graph([
        helper.make_node("Add", ["v", "x"], ["w"]), helper.make_node("Concat", ["all", "w"], ["more"], axis=0),
        helper.make_node("ReduceMax", ["w"], ["m"], keepdims=0), helper.make_node("Less", ["m", "most"], ["go"]),
        helper.make_node("Neg", ["w"], ["row"])], "body",
        [info("i", [], TensorProto.INT64), flag, info("v", [1, 3]), info("all", [None, 3])],
        [info("go", [], TensorProto.BOOL), info("w", [1, 3]), info("more", [None, 3]), info("row", [1, 3])])
    save("growing_loop", [helper.make_node("Loop", ["n", "yes", "x", "x"], ["last", "all_", "rows"], body=body)],
         [info("x", [1, 3]), scalar], "last all_ rows",
         [tensor("yes", np.array(True)), tensor("most", np.float32(9))])
    step = helper.make_graph([
        helper.make_node("NonZero", ["e"], ["at"]), helper.make_node("Size", ["at"], ["k"]),
        helper.make_node("Add", ["s", "k"], ["t"]), helper.make_node("Identity", ["t"], ["row"])], "step",
        [info("s", [], TensorProto.INT64), info("e", [4])],
        [info("t", [], TensorProto.INT64), info("row", [], TensorProto.INT64)])
    save("counting_scan", [helper.make_node("Scan", ["n", "x"], ["t_", "rows"], body=step, num_scan_inputs=1)],
         [info("x", [3, 4]), scalar], "t_:INT64 rows:INT64")
    save("sequences", [
        node("SplitToSequence", "x size", "s", axis=0), node("SequenceErase", "s n", "r"),
        node("SequenceInsert", "r x", "q"), node("SequenceLength", "q", "k"),
        node("SequenceAt", "q n", "e"), node("SplitToSequence", "x size", "p", axis=1),
        node("ConcatFromSequence", "p", "y", axis=0), node("Optional", "e", "o"),
        node("OptionalHasElement", "o", "h")], [info("x", [4, 4]), scalar], "k:INT64 e y h:BOOL",
        [tensor("size", np.int64(2))])
    save("found", [
        node("NonMaxSuppression", "boxes scores most", "b"), node("Shape", "b", "sb"),
        node("Gather", "sb zero", "rows"), node("Range", "zero rows one", "r"),
        node("Unique", "x", "u i", sorted=1), node("Compress", "x keep", "z"),
        node("Tile", "x to", "t"), node("ConstantOfShape", "sizes", "y"),
        node("TopK", "x k", "v w", axis=0)],
        [info("boxes", [1, 4, 4]), info("scores", [1, 1, 4]), info("x", [6]),
         info("keep", [6], TensorProto.BOOL), info("to", [1], TensorProto.INT64),
         info("sizes", [2], TensorProto.INT64),
         info("k", [1], TensorProto.INT64)], "b:INT64 r:INT64 u i:INT64 z t y v w:INT64",
        [tensor("most", np.int64(3)), tensor("zero", np.int64(0)), tensor("one", np.int64(1))])
    save("strings", [
        node("StringNormalizer", "words", "low", case_change_action="LOWER", stopwords=["the"]),
        node("StringConcat", "low low", "twice"), node("RegexFullMatch", "twice", "m", pattern="a.*|(b|c)+"),
        helper.make_node("LabelEncoder", ["low"], ["y"], domain="ai.onnx.ml", keys_strings=["a", "b"],
                         values_int64s=[1, 2], default_int64=-1)],
        [info("words", [3], TensorProto.STRING)], "m:BOOL y:INT64", opset=20, domains=["ai.onnx.ml"])


def learners():
    """Of domain ai.onnx.ml."""
    ml = lambda op, inputs, outputs, **attributes: helper.make_node(
        op, inputs.split(), outputs.split(), domain="ai.onnx.ml", **attributes)
    trees = {"nodes_treeids": [0, 0, 0, 1], "nodes_nodeids": [0, 1, 2, 0],
             "nodes_featureids": [1, 0, 0, 0], "nodes_values": [0.5, 0.0, 0.0, 0.0],
             "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
             "nodes_truenodeids": [1, 0, 0, 0], "nodes_falsenodeids": [2, 0, 0, 0],
             "nodes_missing_value_tracks_true": [1, 0, 0, 0]}
    leaves = lambda prefix: {
        f"{prefix}_treeids": [0, 0, 1, 1], f"{prefix}_nodeids": [1, 2, 0, 0],
        f"{prefix}_ids": [0, 1, 0, 1], f"{prefix}_weights": [1.0, 2.0, 0.5, 0.25]}
    save("trees", [
        ml("Scaler", "x", "s", offset=[1.0, 2.0], scale=[0.5, 2.0]), ml("Normalizer", "s", "n", norm="L2"),
        ml("Imputer", "n", "i", replaced_value_float=float("nan"), imputed_value_floats=[1.0, 2.0]),
        ml("TreeEnsembleRegressor", "i", "r", **trees, **leaves("target"), n_targets=2,
           aggregate_function="MIN", base_values=[1.0, 2.0]),
        ml("TreeEnsembleClassifier", "r", "label scores", **trees, **leaves("class"),
           classlabels_strings=["no", "yes"], post_transform="LOGISTIC"),
        ml("ZipMap", "scores", "maps", classlabels_strings=["no", "yes"])],
        [info("x", [3, 2])], "label:STRING scores", opset=17, domains=["ai.onnx.ml"])
    save("linear", [
        ml("LinearClassifier", "x", "l p", coefficients=[1.0, -1.0], intercepts=[0.5],
           classlabels_ints=[0, 1], post_transform="LOGISTIC"),
        ml("SVMRegressor", "p", "v", kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], n_supports=2,
           coefficients=[1.0, -1.0], rho=[0.5], support_vectors=[1.0, 2.0, 3.0, 4.0]),
        ml("SVMClassifier", "p", "c q", kernel_type="POLY", kernel_params=[0.5, 1.0, 2.0],
           vectors_per_class=[1, 1], coefficients=[1.0, -1.0], rho=[0.5], classlabels_ints=[3, 4],
           support_vectors=[1.0, 2.0, 3.0, 4.0]),
        ml("FeatureVectorizer", "v q", "y", inputdimensions=[1, 2])],
        [info("x", [3, 2])], "y l:INT64 c:INT64", opset=17, domains=["ai.onnx.ml"])


def networks():
    block = [node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("Relu", "a", "b"),
             node("Conv", "b v c", "d", pads=[1, 1, 1, 1]), node("Add", "d x", "e"), node("Relu", "e", "f")]
    save("residual", block + [
        node("Resize", "f  scales", "u", mode="linear", coordinate_transformation_mode="half_pixel"),
        node("Resize", "f  scales", "n", mode="nearest"), node("Concat", "u n", "k", axis=1),
        node("Conv", "k o", "y")],
        [info("x", [1, 4, 6, 6])], "y",
        [floats("w", 4, 4, 3, 3), floats("v", 4, 4, 3, 3), floats("c", 4), floats("o", 2, 8, 1, 1),
         tensor("scales", np.array([1, 1, 2, 2], np.float32))])
    heads = [line for name in "qkv" for line in (
        node("MatMul", f"h w{name}", f"{name}0"), node("Reshape", f"{name}0 split", f"{name}1"),
        node("Transpose", f"{name}1", name, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]))]
    save("transformer", [node("Gather", "table ids", "h", axis=0)] + heads + [
        node("MatMul", "q k", "s"), node("Mul", "s scale", "t"), node("Add", "t mask", "m"),
        node("Softmax", "m", "p", axis=-1), node("MatMul", "p v", "o"),
        node("Transpose", "o", "o1", perm=[0, 2, 1, 3]), node("Reshape", "o1 join", "o2"),
        node("Add", "o2 h", "r"), node("LayerNormalization", "r g b", "y", axis=-1)],
        [info("ids", [1, 3], TensorProto.INT64), info("mask", [1, 1, 1, 3])], "y",
        [floats("table", 5, 4), floats("wq", 4, 4), floats("wk", 4, 4), floats("wv", 4, 4),
         tensor("split", [1, 3, 2, 2]), tensor("join", [1, 3, 4]), tensor("scale", np.float32(0.7)),
         floats("g", 4), floats("b", 4)])


def in_a_file(array, offset, name):
    """A tensor whose values stand in the file "weights", which is nowhere."""
    made = tensor(name, np.asarray(array, np.float32))
    entries = {"location": "weights", "offset": offset, "length": len(made.raw_data)}
    made.ClearField("raw_data")
    made.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        made.external_data.add(key=key, value=str(value))
    return made


def external():
    ways = [helper.make_graph([node("Add", "p b", "s")], "a", [], [info("s", None)],
                              [in_a_file(np.zeros(4), 64, "b")]),
            helper.make_graph([node("Constant", "", "v", value=in_a_file(np.zeros(4), 80, "")),
                               node("Mul", "p v", "t")], "b", [], [info("t", None)])]
    save("external_data", [node("MatMul", "x w", "p"),
                           node("If", "c", "y", then_branch=ways[0], else_branch=ways[1])],
         [info("x", ["N", 4]), info("c", [], TensorProto.BOOL)], "y",
         [in_a_file(np.zeros((4, 4)), 0, "w")])


def compact(artefact):
    """Without the report and the space between pages. Checksums stay wrong: whoever reads seeds
    repairs them first."""
    table = struct.unpack_from("<12Q", artefact, 24)
    parts = [artefact[at:at + size] for at, size in zip(table[0::3], table[1::3], strict=True)]
    parts[3] = b"{}"
    body, sections = b"", []
    for part in parts:
        body += bytes(-(128 + len(body)) % 64)
        sections += [128 + len(body), len(part), 0]
        body += part
    return artefact[:16] + struct.pack("<14Q", 128 + len(body), *sections, 0) + body


def closed(model):
    """The model with every open dimension as 1, and whether it had any."""
    found = False
    for value in model.graph.input:
        for dimension in value.type.tensor_type.shape.dim:
            if not dimension.HasField("dim_value"):
                dimension.dim_value = 1
                found = True
    return model, found


def artefact(model, name):
    with tempfile.TemporaryDirectory() as folder:
        source, made = pathlib.Path(folder) / f"{name}.onnx", pathlib.Path(folder) / "m.stretto"
        onnx.save(model, source)
        (pathlib.Path(folder) / "weights").write_bytes(np.arange(24, dtype=np.float32).tobytes())
        command = ["stretto", "optimize", source, "-o", made, "--tuning", "off", "--threads", "1",
                   "--peers", "none", "--tuning-cache", "none"]
        done = subprocess.run(command, env={**os.environ, "STRETTO_ISA": "avx2"}, capture_output=True)
        if done.returncode == 0:
            (ARTEFACTS / f"{name}.stretto").write_bytes(compact(made.read_bytes()))


def artefacts():
    """Of models with open dimensions both kinds: with them, and with fixed ones."""
    ARTEFACTS.mkdir(exist_ok=True)
    for path in sorted(FOLDER.glob("*.onnx")):
        model, was_open = closed(onnx.load(path, load_external_data=False))
        artefact(model, path.stem)
        if was_open:
            artefact(onnx.load(path, load_external_data=False), f"{path.stem}_open")


def main():
    FOLDER.mkdir(exist_ok=True)
    for family in (convolutions, attention, shapes, padding, old_forms, structure, values, learners,
                   networks, external):
        family()
    artefacts()
    for folder in (FOLDER, ARTEFACTS):
        sizes = [path.stat().st_size for path in folder.iterdir()]
        print(f"{folder.name}: {len(sizes)} files, {sum(sizes)} bytes")


if __name__ == "__main__":
    main()
