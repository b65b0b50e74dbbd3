"""Cases for every row of the table of ATen operators: functions of tensors, and the tensors.

They stand in groups, each of which is one module: tracing takes longer than running.
"""

from __future__ import annotations

from aten_cases_complex import complex_functions, complex_numbers
from aten_cases_elements import activations, binary, reductions, unary
from aten_cases_layers import normalisation, products, recurrent, windows
from aten_cases_linalg import factorised
from aten_cases_places import counted, indexing, shapes
from aten_cases_rare import taken_apart

SEED = 20261125

GROUPS = {f.__name__: f for f in (unary, activations, binary, reductions, shapes, indexing,
                                  products, windows, normalisation, recurrent, complex_numbers,
                                  complex_functions, counted, taken_apart, factorised)}
