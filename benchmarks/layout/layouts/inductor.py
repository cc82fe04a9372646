"""Conversions that inductor leaves, measured earlier, not by this command.

The copies between layouts in the code that torch 2.13's inductor generates for channels_last
inputs, on models of the same structures but other widths.
"""

INDUCTOR = {
    "resnet18": "2",
    "mobilenet_v2": "1",
    "mobilenet_v3": "1",
    "shufflenet": "17",
    "convnext": "1",
    "unet": "3",
    "yolo": "3",
    "nhwc_import": "0",
    "mixed": "5",
    "vit": "37",
    "swin": "1 (undercounts)",
}
