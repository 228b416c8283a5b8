"""Where an installation holds the commands; in a checkout: pretrain/ and finetune/."""
