"""The only importer of cuda: NVRTC, driver, launch."""
