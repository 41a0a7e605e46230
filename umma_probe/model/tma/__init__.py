"""The tensor memory accelerator: tensor maps, and the copies that they describe."""
