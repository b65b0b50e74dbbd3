"""Text and speech: encoders, decoders, encoder-decoders, and what listens."""

from __future__ import annotations

from bench.architectures.row import Architecture, Input, floats, ids, ones


def transformers(name: str, family: str, make: str, inputs: tuple[Input, ...],
                 **more) -> Architecture:
  return Architecture(name, family, "transformers", inputs, make, **more)


HIDDEN = ("last_hidden_state",)
LOGITS = ("logits",)

# Widths of published models, a few of their layers and a small vocabulary.
ENCODER = {"vocab_size": 1000, "hidden_size": 384, "num_hidden_layers": 3, "num_attention_heads": 6,
           "intermediate_size": 1536}
DECODER = {"vocab_size": 1000, "hidden_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8,
           "num_key_value_heads": 2, "intermediate_size": 1408}
SMALL = "3 layers, a vocabulary of 1,000"


def encoder(name: str, make: str, outputs: tuple[str, ...] = HIDDEN, length: int = 64,
            options: dict | None = None, mask: bool = True, note: str = SMALL) -> Architecture:
  inputs = (ids(length), ones(length)) if mask else (ids(length),)
  names = ("input_ids", "attention_mask") if mask else ("input_ids",)
  return transformers(name, "encoder", make, inputs, options=options or ENCODER, keywords=names,
                      outputs=outputs, note=note)


def decoder(name: str, make: str, length: int = 32, **options) -> Architecture:
  sizes = {**DECODER, **options}
  sizes = {key: value for key, value in sizes.items() if value is not None}
  return transformers(name, "decoder", make, (ids(length),), options=sizes, keywords=("input_ids",),
                      outputs=LOGITS, note=SMALL)


def speech(name: str, make: str, options: dict, inputs: tuple[Input, ...] = (floats(8000),),
           outputs: tuple[str, ...] = HIDDEN, note: str = "half a second, 2 layers",
           **more) -> Architecture:
  return transformers(name, "speech", make, inputs, options=options, outputs=outputs, note=note,
                      **more)


WAVE = {"hidden_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 768, "conv_dim": [128] * 7, "vocab_size": 32}

LANGUAGE = [
  # Encoders.
  encoder("bert", "BertModel", ("last_hidden_state", "pooler_output")),
  encoder("roberta", "RobertaModel"),
  encoder("distilbert", "DistilBertModel", options={
    "vocab_size": 1000, "dim": 384, "n_layers": 3, "n_heads": 6, "hidden_dim": 1536}),
  encoder("albert", "AlbertModel", options={**ENCODER, "embedding_size": 128}),
  encoder("electra", "ElectraModel", options={**ENCODER, "embedding_size": 128}),
  encoder("deberta_v2", "DebertaV2Model", options={
    **ENCODER, "relative_attention": True, "position_buckets": 32, "max_relative_positions": 64,
    "pos_att_type": ["p2c", "c2p"], "share_att_key": True, "norm_rel_ebd": "layer_norm"}),
  encoder("mpnet", "MPNetModel"),
  encoder("modernbert", "ModernBertModel", options={
    **ENCODER, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "cls_token_id": 2,
    "sep_token_id": 1, "global_attn_every_n_layers": 2, "local_attention": 16}),
  encoder("mobilebert", "MobileBertModel", options={"vocab_size": 1000, "num_hidden_layers": 4},
          note="4 of 24 layers"),
  encoder("squeezebert", "SqueezeBertModel", options={**ENCODER, "embedding_size": 384}),
  encoder("fnet", "FNetModel", mask=False, note="Fourier transforms; 3 layers"),
  encoder("convbert", "ConvBertModel", options={**ENCODER, "embedding_size": 128}),
  encoder("roformer", "RoFormerModel", options={**ENCODER, "embedding_size": 384}),
  transformers("clip_text", "encoder", "CLIPTextModel", (ids(32), ones(32)), options={
    **ENCODER, "eos_token_id": 2, "max_position_embeddings": 77},
               keywords=("input_ids", "attention_mask"),
               outputs=("last_hidden_state", "pooler_output"), note=SMALL),
  # Decoders: a prompt; with their cache of keys and values where the row says so.
  decoder("gpt2", "GPT2LMHeadModel", hidden_size=None, num_hidden_layers=None,
          num_attention_heads=None, num_key_value_heads=None, intermediate_size=None, n_embd=384,
          n_layer=3, n_head=6),
  decoder("gpt_neox", "GPTNeoXForCausalLM", num_key_value_heads=None),
  decoder("opt", "OPTForCausalLM", num_key_value_heads=None, intermediate_size=None, ffn_dim=1536),
  decoder("bloom", "BloomForCausalLM", num_hidden_layers=None, num_attention_heads=None,
          num_key_value_heads=None, intermediate_size=None, n_layer=3, n_head=8),
  decoder("llama", "LlamaForCausalLM"),
  decoder("mistral", "MistralForCausalLM", sliding_window=16),
  decoder("qwen2", "Qwen2ForCausalLM"),
  decoder("qwen3", "Qwen3ForCausalLM", head_dim=64),
  decoder("gemma2", "Gemma2ForCausalLM", head_dim=64, sliding_window=16),
  decoder("phi", "PhiForCausalLM", num_key_value_heads=8),
  decoder("phi3", "Phi3ForCausalLM", pad_token_id=0),
  decoder("olmo2", "Olmo2ForCausalLM"),
  decoder("starcoder2", "Starcoder2ForCausalLM"),
  decoder("cohere", "CohereForCausalLM"),
  decoder("falcon", "FalconForCausalLM", num_key_value_heads=None, intermediate_size=None),
  decoder("mixtral", "MixtralForCausalLM", num_local_experts=4),
  decoder("mixtral_batched", "MixtralForCausalLM", num_local_experts=4, experts="batched_mm"),
  decoder("mamba", "MambaForCausalLM", num_attention_heads=None, num_key_value_heads=None,
          intermediate_size=None, num_hidden_layers=2, length=16),
  Architecture("llama_step", "decoder", "language", (ids(1), floats(3, 2, 2, 63, 64)), "LlamaStep",
               note="one token after 63, with the cache of keys and values; 3 layers of 512"),
  Architecture("llama_prompt", "decoder", "language", (ids(32),), "LlamaPrompt",
               note="rotary positions, shared keys and values, RMS norms, SwiGLU; 3 layers of 512"),
  # Encoder-decoders.
  transformers("t5", "encoder-decoder", "T5ForConditionalGeneration", (ids(48), ids(16)), options={
    "vocab_size": 1000, "d_model": 384, "d_kv": 64, "d_ff": 1024, "num_layers": 3, "num_heads": 6,
    "feed_forward_proj": "gated-gelu"}, keywords=("input_ids", "decoder_input_ids"),
               outputs=LOGITS, note=SMALL),
  transformers("bart", "encoder-decoder", "BartForConditionalGeneration", (ids(48), ids(16)),
               options={"vocab_size": 1000, "d_model": 384, "encoder_layers": 3,
                        "decoder_layers": 3, "encoder_attention_heads": 6,
                        "decoder_attention_heads": 6, "encoder_ffn_dim": 1536,
                        "decoder_ffn_dim": 1536}, keywords=("input_ids", "decoder_input_ids"),
               outputs=LOGITS, note=SMALL),
  transformers("marian", "encoder-decoder", "MarianMTModel", (ids(48), ids(16)),
               options={"vocab_size": 1000, "d_model": 384, "encoder_layers": 3,
                        "decoder_layers": 3, "encoder_attention_heads": 6,
                        "decoder_attention_heads": 6, "encoder_ffn_dim": 1536,
                        "decoder_ffn_dim": 1536, "pad_token_id": 0,
                        "decoder_start_token_id": 0}, keywords=("input_ids", "decoder_input_ids"),
               outputs=LOGITS, note=SMALL),
  transformers("whisper", "encoder-decoder", "WhisperForConditionalGeneration",
               (floats(80, 600), ids(8)), options={
    "vocab_size": 1000, "d_model": 384, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 6, "decoder_attention_heads": 6, "encoder_ffn_dim": 1536,
    "decoder_ffn_dim": 1536, "max_source_positions": 300, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1},
               keywords=("input_features", "decoder_input_ids"), outputs=LOGITS,
               note="6 seconds, 2 layers of Whisper tiny"),
  Architecture("seq2seq_attention", "recurrent", "recurrent", (ids(24), ids(12)), "Translator",
               note="two-way GRU, GRU cells with additive attention"),
  # Speech and sound.
  speech("wav2vec2", "Wav2Vec2Model", WAVE),
  speech("wav2vec2_ctc", "Wav2Vec2ForCTC", {**WAVE, "do_stable_layer_norm": True,
                                            "feat_extract_norm": "layer"}, outputs=LOGITS),
  speech("hubert", "HubertModel", WAVE),
  speech("wavlm", "WavLMModel", WAVE),
  speech("sew", "SEWModel", {**WAVE, "conv_dim": [64, 128] + [128] * 11}),
  speech("wav2vec2_conformer", "Wav2Vec2ConformerModel", {**WAVE, "position_embeddings_type":
                                                          "rotary"}),
  speech("wav2vec2_bert", "Wav2Vec2BertModel", {
    "hidden_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 768}, (floats(64, 160),), note="64 frames, 2 layers"),
  speech("spectrogram_transformer", "ASTModel", {
    "hidden_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 768,
    "max_length": 128}, (floats(128, 128),), note="128 frames, 2 layers"),
  speech("hifigan", "SpeechT5HifiGan", {"upsample_initial_channel": 128}, (floats(20, 80),),
         outputs=(), note="20 frames, a quarter of the channels"),
  speech("encodec_encoder", "EncodecModel", {"num_filters": 16}, (floats(1, 4800),),
         outputs=("encoder",), note="the encoder: convolutions and an LSTM"),
  Architecture("conformer", "speech", "speech", (floats(128, 80),), "Conformer",
               note="subsampling, relative positions; 2 blocks of 144"),
  Architecture("deep_speech", "speech", "speech", (floats(1, 80, 96),), "DeepSpeech",
               note="convolutions and two-way GRUs"),
  Architecture("wavenet", "speech", "speech", (floats(64, 512),), "WaveNet",
               note="dilated causal convolutions with gates; 8 layers"),
  Architecture("spectrogram_front", "speech", "speech", (floats(4000),), "Spectrogram",
               note="torch.stft, a filter bank and a convolution"),
]
