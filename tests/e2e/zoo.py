"""Models of many architectures with small random configurations; nothing is downloaded."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Made = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class ZooModel:
    """An architecture: how to make it with inputs, and what is tried with it."""

    name: str
    kind: str
    make: Callable[[], Made]
    trains: bool = False
    quick: bool = False


class Outputs(torch.nn.Module):
    """A model that gives the tensors it computes as a tuple, and takes its inputs by name."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, **inputs: Any) -> tuple[torch.Tensor, ...]:
        outputs = self.model(**inputs)
        return tuple(outputs[name] for name in self.names if outputs.get(name) is not None)


def _hub(
    module: str, config: str, model: str, names: tuple[str, ...], inputs: Callable[[], dict[str, Any]], **sizes: Any
):
    def make() -> Made:
        library = importlib.import_module(f"transformers.models.{module}")
        settings = getattr(library, config)(**sizes)
        settings._attn_implementation = "eager"
        torch.manual_seed(0)
        return Outputs(getattr(library, model)(settings).eval(), names), (), inputs()

    return make


def _ids(batch: int = 2, length: int = 12, vocabulary: int = 90) -> torch.Tensor:
    return torch.randint(3, vocabulary, (batch, length), generator=torch.Generator().manual_seed(1))


def _text(**extra: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"input_ids": _ids(), **extra}


def _image(size: int = 32) -> Callable[[], dict[str, Any]]:
    return lambda: {"pixel_values": torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(2))}


_SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
_DECODER = {**_SMALL, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_HIDDEN = ("last_hidden_state",)
_NO_CACHE = {"use_cache": False}


class CachedStep(torch.nn.Module):
    """One decoding step of a causal model: it fills a cache with a prompt, then takes one more token."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, prompt: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        first = self.model(input_ids=prompt, use_cache=True)
        return self.model(input_ids=token, past_key_values=first.past_key_values, use_cache=True).logits


def _llama_step() -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    settings = LlamaConfig(**_DECODER, attn_implementation="eager")
    return CachedStep(LlamaForCausalLM(settings).eval()), (_ids(1, 6), _ids(1, 1)), {}


def _unet() -> Made:
    from diffusers import UNet2DModel

    torch.manual_seed(0)
    model = UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
    )

    class Sample(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unet = model

        def forward(self, sample: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
            return self.unet(sample, timestep).sample

    noise = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    return Sample().eval(), (noise, torch.tensor([7])), {}


def _clip_inputs() -> dict[str, Any]:
    return {"input_ids": _ids(2, 8), **_image(16)()}


def _seq2seq() -> dict[str, Any]:
    return {"input_ids": _ids(), "decoder_input_ids": _ids(2, 6)}


def _whisper() -> dict[str, Any]:
    features = torch.randn(1, 20, 32, generator=torch.Generator().manual_seed(4))
    return {"input_features": features, "decoder_input_ids": _ids(1, 5)}


def _speech() -> dict[str, Any]:
    return {"input_values": torch.randn(1, 2000, generator=torch.Generator().manual_seed(5))}


_T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
_BART = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
}
_VIT = {**_SMALL, "image_size": 32, "patch_size": 8}
_SPEECH = {
    **_SMALL,
    "conv_dim": (16, 16),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "mask_time_prob": 0.0,
}
_CLIP = {
    "text_config": {**_SMALL, "projection_dim": 16, "eos_token_id": 2},
    "vision_config": {**_VIT, "image_size": 16, "projection_dim": 16},
    "projection_dim": 16,
}
_MAMBA = {"vocab_size": 99, "hidden_size": 32, "state_size": 8, "num_hidden_layers": 2, "conv_kernel": 4}

ZOO: tuple[ZooModel, ...] = (
    ZooModel("bert", "encoder", _hub("bert", "BertConfig", "BertModel", _HIDDEN, _text(), **_SMALL), True, True),
    ZooModel(
        "distilbert",
        "encoder",
        _hub(
            "distilbert",
            "DistilBertConfig",
            "DistilBertModel",
            _HIDDEN,
            _text(),
            vocab_size=99,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
        ),
        True,
    ),
    ZooModel(
        "roberta",
        "encoder",
        _hub("roberta", "RobertaConfig", "RobertaModel", _HIDDEN, _text(), **{**_SMALL, "max_position_embeddings": 80}),
        True,
    ),
    ZooModel(
        "gpt2",
        "decoder",
        _hub(
            "gpt2",
            "GPT2Config",
            "GPT2LMHeadModel",
            ("logits",),
            _text(**_NO_CACHE),
            vocab_size=99,
            n_positions=64,
            n_embd=32,
            n_layer=2,
            n_head=4,
        ),
        True,
        True,
    ),
    ZooModel(
        "llama",
        "decoder",
        _hub("llama", "LlamaConfig", "LlamaForCausalLM", ("logits",), _text(**_NO_CACHE), **_DECODER),
        True,
        True,
    ),
    ZooModel("llama_cached_step", "decoder with cache", _llama_step),
    ZooModel(
        "qwen2",
        "decoder",
        _hub("qwen2", "Qwen2Config", "Qwen2ForCausalLM", ("logits",), _text(**_NO_CACHE), **_DECODER),
        True,
    ),
    ZooModel(
        "qwen3",
        "decoder",
        _hub("qwen3", "Qwen3Config", "Qwen3ForCausalLM", ("logits",), _text(**_NO_CACHE), head_dim=8, **_DECODER),
    ),
    ZooModel(
        "mixtral",
        "mixture of experts",
        _hub(
            "mixtral",
            "MixtralConfig",
            "MixtralForCausalLM",
            ("logits",),
            _text(**_NO_CACHE),
            num_local_experts=4,
            num_experts_per_tok=2,
            **_DECODER,
        ),
    ),
    ZooModel("t5", "encoder-decoder", _hub("t5", "T5Config", "T5Model", _HIDDEN, _seq2seq, **_T5), True),
    ZooModel("bart", "encoder-decoder", _hub("bart", "BartConfig", "BartModel", _HIDDEN, _seq2seq, **_BART)),
    ZooModel("vit", "vision", _hub("vit", "ViTConfig", "ViTModel", _HIDDEN, _image(), **_VIT), True),
    ZooModel(
        "convnext",
        "convolution",
        _hub(
            "convnext",
            "ConvNextConfig",
            "ConvNextModel",
            _HIDDEN,
            _image(),
            hidden_sizes=[8, 16],
            depths=[1, 1],
            num_stages=2,
        ),
        True,
    ),
    ZooModel(
        "resnet",
        "convolution",
        _hub(
            "resnet",
            "ResNetConfig",
            "ResNetModel",
            _HIDDEN,
            _image(),
            embedding_size=8,
            hidden_sizes=[8, 16],
            depths=[1, 1],
            layer_type="basic",
        ),
        True,
        True,
    ),
    ZooModel(
        "segformer",
        "vision",
        _hub(
            "segformer",
            "SegformerConfig",
            "SegformerModel",
            _HIDDEN,
            _image(),
            hidden_sizes=[8, 16],
            depths=[1, 1],
            num_encoder_blocks=2,
            sr_ratios=[2, 1],
            patch_sizes=[7, 3],
            strides=[4, 2],
            num_attention_heads=[1, 2],
            mlp_ratios=[2, 2],
        ),
    ),
    ZooModel(
        "clip", "two towers", _hub("clip", "CLIPConfig", "CLIPModel", ("logits_per_image",), _clip_inputs, **_CLIP)
    ),
    ZooModel(
        "whisper",
        "speech",
        _hub(
            "whisper",
            "WhisperConfig",
            "WhisperModel",
            _HIDDEN,
            _whisper,
            vocab_size=99,
            num_mel_bins=20,
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            max_source_positions=16,
            max_target_positions=16,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        ),
    ),
    ZooModel("wav2vec2", "speech", _hub("wav2vec2", "Wav2Vec2Config", "Wav2Vec2Model", _HIDDEN, _speech, **_SPEECH)),
    ZooModel(
        "mamba",
        "state space",
        _hub("mamba", "MambaConfig", "MambaForCausalLM", ("logits",), _text(**_NO_CACHE), **_MAMBA),
        False,
        True,
    ),
    ZooModel("unet", "diffusion", _unet, True),
)
