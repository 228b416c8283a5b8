"""The family of GPT-2."""

from keras_attn.families.architecture_choice import named_sizes
from keras_attn.families.contract import Family
from keras_attn.models import GPT2, GPT2Classifier, GPT2LanguageModel
from keras_attn.models.gpt2 import GPT2_SIZES
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class GPT2Family(Family):
    """GPT-2 (Radford et al., 2019)."""

    name, title = "gpt2", "GPT-2"
    backbone, backbone_name = GPT2, "gpt2"
    task_models = {"causal_lm": GPT2LanguageModel, "classification": GPT2Classifier}
    tokenizers = TOKENIZER_TYPES["bpe"]
    sizes = named_sizes(GPT2_SIZES)
    finetunes_from_scratch = False
    packs = False
    tokenizer_fields = {"end_mark": True}

    def default_arguments(self, run, shape):
        # Positions above data.length would never be trained.
        return {"max_length": run.config.data.length, "dropout": 0.0, "initializer_range": 0.02}

    def choose_architecture(self, run, use_pooler=False):
        architecture = super().choose_architecture(run, use_pooler)
        length, positions = run.config.data.length, architecture["max_length"]
        if run.task.pretrains and length < positions and not (run.resumed or run.pretrained):
            run.say(f"positions {length + 1} to {positions} are not trained: data.length={length}")
        return architecture

    def read_tokenizer(self, folder, data):
        tokenizer = super().read_tokenizer(folder, data)
        if data.get("end_mark") is False:
            tokenizer.append_eos = False
        return tokenizer

    def tokenizer_settings(self, tokenizer):
        # GPT-2 classifiers of transformers use no end-of-sequence token.
        return {} if tokenizer.append_eos else {"end_mark": False}


FAMILY = GPT2Family()
