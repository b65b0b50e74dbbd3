"""Trains a small network on several ranks with JAX; gradients are averaged inside the jitted step.

  stretto run -n 2 examples/python/train_jax.py
  stretto run -n 2 --codec int8 examples/python/train_jax.py
"""

import jax
import jax.numpy as jnp
import stretto.jax as st


def data(key, rows: int):
  """Which of three noisy waves is it?"""
  kind, phase, noise = jax.random.split(key, 3)
  labels = jax.random.randint(kind, (rows,), 0, 3)
  t = jnp.linspace(0, 1, 64) + jax.random.uniform(phase, (rows, 1))
  waves = jnp.stack([jnp.sin(12 * t), jnp.sign(jnp.sin(12 * t)), jnp.abs(jnp.sin(6 * t))])
  return waves[labels, jnp.arange(rows)] + 0.3 * jax.random.normal(noise, t.shape), labels


def scores(params, x):
  return jax.nn.relu(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def loss_of(params, x, labels):
  return -jnp.mean(jax.nn.log_softmax(scores(params, x))[jnp.arange(len(x)), labels])


@jax.jit
def step(params, x, labels):
  loss, grads = jax.value_and_grad(loss_of)(params, x, labels)
  grads = st.average_gradients(grads)
  return jax.tree.map(lambda p, g: p - 0.3 * g, params, grads), loss


def main() -> None:
  st.init()
  keys = jax.random.split(jax.random.PRNGKey(st.rank()), 2)
  params = st.broadcast({
      "w1": 0.1 * jax.random.normal(keys[0], (64, 64)), "b1": jnp.zeros(64),
      "w2": 0.1 * jax.random.normal(keys[1], (64, 3)), "b2": jnp.zeros(3)})
  x, labels = data(jax.random.PRNGKey(100 + st.rank()), 1200)  # every rank has its own
  test_x, test_labels = data(jax.random.PRNGKey(99), 600)
  for epoch in range(1, 13):
    for begin in range(0, len(x), 60):
      params, loss = step(params, x[begin:begin + 60], labels[begin:begin + 60])
    accuracy = jnp.mean(scores(params, test_x).argmax(1) == test_labels)
    loss = st.all_reduce(loss)
    if st.rank() == 0:
      print(f"epoch {epoch}  loss {float(loss):.4f}  accuracy {float(accuracy):.4f}", flush=True)
  st.shutdown()


if __name__ == "__main__":
  main()
