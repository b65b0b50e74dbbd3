"""Recurrent networks, video and volumes, diffusion, tables, graphs and fields."""

from __future__ import annotations

from bench.architectures.row import Architecture, Input, floats, ids, unit


def video(name: str, frames: int = 8, size: int = 64, **more) -> Architecture:
  return Architecture(name, "3-D", "torchvision", (floats(3, frames, size, size),),
                      note=f"{frames} frames of {size} pixels", **more)


def own(name: str, family: str, file: str, make: str, inputs: tuple[Input, ...],
        note: str = "") -> Architecture:
  return Architecture(name, family, file, inputs, make, note=note)


OTHER = [
  # Recurrent networks.
  own("lstm_classifier", "recurrent", "recurrent", "LstmClassifier", (floats(32, 64),),
      "2 layers of 128"),
  own("gru_tagger", "recurrent", "recurrent", "GruTagger", (ids(32),), "two-way, 2 layers of 128"),
  own("lstm_language_model", "recurrent", "recurrent", "LstmLanguageModel",
      (ids(24), floats(128, batch_axis=0), floats(128, batch_axis=0)),
      "its state goes in and comes out"),
  own("lstm_projected", "recurrent", "recurrent", "LstmProjected", (floats(32, 64),),
      "with a projection of the state"),
  own("rnn_tanh", "recurrent", "recurrent", "PlainRnn", (floats(32, 64),)),
  own("lstm_cells", "recurrent", "recurrent", "LstmCells", (floats(16, 64),),
      "a loop over LSTMCell in Python"),
  own("crnn", "recurrent", "recurrent", "Crnn", (floats(1, 32, 100),),
      "convolutions and a two-way LSTM that read a line of text"),
  own("conv_lstm", "recurrent", "recurrent", "ConvLstm", (floats(6, 3, 32, 32),), "6 frames"),
  # Video and volumes.
  video("r3d_18"), video("mc3_18"), video("r2plus1d_18"),
  video("s3d", 16, 96), video("swin3d_t", 8, 64), video("mvit_v2_s", 16, 224),
  own("unet_3d", "3-D", "volumes", "UNet3D", (floats(1, 16, 32, 32),),
      "trilinear upsampling and instance norms"),
  own("vnet", "3-D", "volumes", "VNet", (floats(1, 16, 32, 32),), "transposed convolutions, PReLU"),
  # Diffusion and other generators.
  own("diffusion_unet", "diffusion", "diffusion", "DiffusionUNet",
      (floats(4, 16, 16), unit(), floats(8, 64)), "group norms, cross attention; 2 levels"),
  own("diffusion_transformer", "diffusion", "diffusion", "DiffusionTransformer",
      (floats(4, 16, 16), unit()), "adaptive layer norms; 3 blocks of 192"),
  Architecture("unet_2d_condition", "diffusion", "diffusers",
               (floats(4, 32, 32), unit(), floats(8, 64)), "UNet2DConditionModel", options={
    "sample_size": 32, "block_out_channels": [64, 128], "layers_per_block": 1,
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"], "cross_attention_dim": 64,
    "attention_head_dim": 8}, outputs=("sample",), note="2 levels of 64 and 128 channels"),
  Architecture("autoencoder_kl", "diffusion", "diffusers", (floats(4, 16, 16),), "AutoencoderKL",
               options={"block_out_channels": [32, 64], "latent_channels": 4,
                        "down_block_types": ["DownEncoderBlock2D"] * 2,
                        "up_block_types": ["UpDecoderBlock2D"] * 2}, outputs=("decode",),
               note="the decoder, 2 levels"),
  own("dcgan_generator", "diffusion", "generators", "Generator", (floats(64),)),
  own("style_generator", "diffusion", "generators", "StyleGenerator", (floats(64),),
      "modulated convolutions, bilinear upsampling"),
  own("espcn", "diffusion", "generators", "SuperResolution", (floats(3, 48, 48),),
      "pixel shuffle by 3, bicubic skip"),
  own("spatial_transformer", "diffusion", "generators", "SpatialTransformer", (floats(1, 28, 28),),
      "affine_grid and grid_sample"),
  # Tables, graphs, points and fields.
  own("recommender", "tables", "tables", "Recommender", (floats(13), ids(8)),
      "embedding bags and pairwise products"),
  own("tab_transformer", "tables", "tables", "TabTransformer", (floats(10), ids(6))),
  own("n_beats", "tables", "tables", "NBeats", (floats(48),), "forecasts of a time series"),
  own("tcn", "tables", "tables", "Tcn", (floats(16, 128),), "weight norms, dilated convolutions"),
  own("graph_attention", "tables", "fields", "GraphAttention", (floats(32, 16), unit(32, 32)),
      "a dense matrix of neighbours"),
  own("message_passing", "tables", "fields", "MessagePassing", (floats(32, 16),),
      "scatter_add over a fixed list of edges"),
  own("point_net", "tables", "fields", "PointNet", (floats(3, 256),)),
  own("nerf", "tables", "fields", "Nerf", (floats(64, 3), floats(64, 3)),
      "sines of positions, an MLP, compositing by cumprod"),
  own("fourier_operator", "tables", "fields", "FourierOperator", (floats(1, 32, 32),),
      "rfft2, complex weights, irfft2"),
]
