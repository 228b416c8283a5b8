"""Visualization of attention weights."""

from keras_attn.visualize.attention_maps import attention_maps
from keras_attn.visualize.attention_of_text import attention_of_text
from keras_attn.visualize.attention_page import AttentionPage, attention_page
from keras_attn.visualize.plot_attention import plot_attention

__all__ = [
    "AttentionPage",
    "attention_maps",
    "attention_of_text",
    "attention_page",
    "plot_attention",
]
