"""The checks of test_frameworks.py on stretto.jax."""

import jax
import jax.numpy as jnp
import numpy as np
import ranks
import stretto.jax as st

import stretto


def value(rank, shape=(7,)):
  return jnp.arange(float(np.prod(shape))).reshape(shape) + rank


def total(size, shape=(7,)):
  return sum(value(r, shape) for r in range(size))


def same(got, want):
  np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def check_place(rank, size):
  assert (st.rank(), st.size(), st.local_rank(), st.local_size()) == (rank, size, rank, size)


def check_all_reduce(rank, size):
  same(st.all_reduce(value(rank), "sum"), total(size))
  tree = st.all_reduce({"a": value(rank), "b": [value(rank, (2, 2)), jnp.float32(rank)]}, "sum")
  same(tree["a"], total(size))
  same(tree["b"][0], total(size, (2, 2)))
  same(tree["b"][1], size * (size - 1) / 2)
  same(st.all_reduce(value(rank).astype(jnp.bfloat16), "max"), value(size - 1))
  same(st.all_reduce(jnp.arange(3) + rank, "max"), jnp.arange(3) + size - 1)


def check_inside_jit(rank, size):

  @jax.jit
  def both(x):
    y = st.all_reduce(x * 2, "sum")
    return y + 1, st.all_reduce(y, "average")

  for step in range(3):
    a, b = both(value(rank) + step)
    same(a, 2 * (total(size) + size * step) + 1)
    same(b, 2 * (total(size) + size * step))


def check_gradient(rank, size):

  @jax.jit
  def loss(x):
    return (st.all_reduce(x, "sum") * (rank + 1)).sum()

  same(jax.grad(loss)(jnp.full(3, float(rank))), jnp.full(3, size * (size + 1) / 2))


def check_moves(rank, size):
  same(st.broadcast({"x": value(rank)}, 1)["x"], value(1))
  same(jax.jit(lambda x: st.broadcast(x, 1))(value(rank)), value(1))
  same(st.all_gather(value(rank, (rank + 1, 2))),
       jnp.concatenate([value(r, (r + 1, 2)) for r in range(size)]))
  same(jax.jit(st.all_gather)(value(rank, (2, 2))),
       jnp.concatenate([value(r, (2, 2)) for r in range(size)]))
  st.barrier()


def problem(step, rank, size):
  key = jax.random.PRNGKey(step)
  x = jax.random.normal(key, (8 * size, 40))
  y = jnp.sin(x[:, :3])
  mine = slice(rank * 8, (rank + 1) * 8)
  return (x[mine], y[mine]), (x, y)


def parameters():
  keys = jax.random.split(jax.random.PRNGKey(0))
  return {"w": jax.random.normal(keys[0], (40, 64)) * 0.2,
          "v": jax.random.normal(keys[1], (64, 3)) * 0.2, "b": jnp.zeros(3)}


def loss_of(params, x, y):
  return jnp.mean((jnp.tanh(x @ params["w"]) @ params["v"] + params["b"] - y) ** 2)


def check_training(rank, size):
  """In one jitted step, with what one process gets that has the whole batch; and with a codec."""

  def stepper(average):

    @jax.jit
    def step(params, x, y):
      loss, grads = jax.value_and_grad(loss_of)(params, x, y)
      return jax.tree.map(lambda p, g: p - 0.2 * g, params, average(grads)), loss

    return step

  alone, ours = stepper(lambda g: g), stepper(st.average_gradients)
  coded = stepper(lambda g: st.average_gradients(g, codec="int8", name="coded"))
  want, got, less = parameters(), st.broadcast(parameters()), parameters()
  losses = []
  for step in range(60):
    mine, whole = problem(step, rank, size)
    want, _ = alone(want, *whole)
    got, _ = ours(got, *mine)
    less, loss = coded(less, *mine)
    losses.append(float(loss))
  for name in want:
    # Sums in another order, over 60 steps.
    np.testing.assert_allclose(got[name], want[name], rtol=1e-3, atol=1e-5)
    # Within the error of int8 with feedback; without training they are further than 0.1 apart.
    np.testing.assert_allclose(less[name], want[name], atol=0.02)
    same(st.broadcast(less)[name], less[name])
  assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def check_bad_words(rank, size):
  """Also inside jit, where the call would be refused when the program runs, in words of XLA."""
  for call, words in (
      (lambda x: st.all_reduce(x, "median"), "got 'median'"),
      (lambda x: st.all_reduce(x, ["sum"]), "op: expected one of sum, average"),
      (lambda x: st.all_reduce([x, "text"]), "all_reduce: leaf [1]: expected an array, got 'text'"),
      (lambda x: st.average_gradients(x, codec="zip"), "codec: expected one of none, fp16"),
      (lambda x: st.average_gradients(x, codec=5), "codec: expected a string, got 5"),
      (lambda x: st.broadcast(x, "first"), f"expected a root from 0 to {size - 1}, got 'first'"),
      (lambda x: st.all_gather(x[0]), "all_gather: array: a scalar has no rows"),
      (lambda x: st.all_gather("text"), "all_gather: array: expected an array, got 'text'")):
    for function in (call, jax.jit(call)):
      try:
        function(value(rank))
      except stretto.InvalidArgumentError as error:
        assert words in str(error), error
      else:
        raise AssertionError(f"no error with '{words}'")


if __name__ == "__main__":
  ranks.named_main(globals(), st)
