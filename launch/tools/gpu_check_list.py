"""The checks of gpu-check.sh, the most valuable first, and what each check needs."""

import dataclasses
import fnmatch

# Folders of data: the words that make each, less --scale and --out.
HUBS = "arxiv-hubs"  # or the real set: gpu-check.sh --real-arxiv
DATASETS = {
    "small": ["sbm", "--nodes", "600", "--classes", "4", "--features", "16"],
    "ogbn-arxiv": ["like:ogbn-arxiv"],
    "ogbn-products": ["like:ogbn-products"],
    "reddit": ["like:reddit"],
    HUBS: ["like:ogbn-arxiv", "--degree-tail"],
}

# Kernels alone are looked at, at their smallest sizes, since the tools slow them down a hundredfold,
# and without the tests that repeat others or only refuse.
SANITIZED = "*/cuda*:CudaBackendTest.*:-*RunsTwice*:*WhatARecordingMayNotDo*:*SpmmOfVeryWide*"
DEVICE_TESTS = "*cuda*:*Cuda*:*Device*:*Nccl*"


@dataclasses.dataclass
class Check:
    """One program to run and how to read what it says. `seconds` is what it is expected to take on
    graphs of the published sizes: a check that needs more than is left is put off."""
    stage: str
    name: str
    kind: str  # a function of gpu_check_judge
    words: list
    seconds: float
    needs: tuple = ()    # (dataset, parts): a dataset folder cut into so many parts
    probe: str = ""      # what the host may lack: a key of gpu_check_probes.PROBES
    replayed: bool = True  # epochs: whether they must come from a recording
    environment: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Setting:
    """Where things are and how much is measured."""
    build: str
    python: str
    scale: float
    epochs: int
    folder_of: object  # dataset name -> its folder


def bench(setting, dataset, *options, profile=True):
    """The words of one measurement, less where its JSON goes."""
    words = [f"{setting.build}/atoll", "bench", setting.folder_of(dataset), "--backend", "cuda",
             "--warmup", "5", "--epochs", str(setting.epochs)]
    if profile:
        words += ["--profile", str(min(5, setting.epochs))]
    return words + list(options)


PRECISIONS = {"bf16": ["--dtype", "bf16"], "f32": [], "tf32": ["--tf32", "on"]}


def epochs_of(setting, stage, dataset, seconds):
    for precision in ("bf16", "f32", "tf32"):
        for model in ("gcn", "sage"):
            yield Check(stage, f"epoch_{dataset}_{model}_{precision}", "epochs",
                        bench(setting, dataset, "--model", model, *PRECISIONS[precision]), seconds,
                        needs=(dataset, 1))


def start(setting):
    """A user's first command: with this alone failing, nothing else is worth its time."""
    yield Check("start", "train", "plain",
                [f"{setting.build}/atoll", "train", setting.folder_of("small"), "--backend", "cuda",
                 "--hidden", "32", "--epochs", "20", "--run-dir", "none"], 10, needs=("small", 1))


def tests_of(setting, stage, programs):
    for name, seconds in programs:
        yield Check(stage, f"test_{name}", "tests",
                    [f"{setting.build}/test_{name}", f"--gtest_filter={DEVICE_TESTS}"], seconds)


def kernel_tests(setting):
    yield from tests_of(setting, "kernel_tests", [("kernels", 120)])


def tests(setting):
    yield from tests_of(setting, "tests", [("training", 150), ("exchange", 12), ("comm", 8)])


def card(setting):
    """The project's card, in one command: cuSPARSE, and messages of adaptive widths."""
    words = bench(setting, "ogbn-arxiv", "--spmm", "cusparse", "--exchange", "quantized", "--bits",
                  "adaptive", "--transport", "local", "--ranks", "2", profile=False)
    yield Check("card", "card_two_ranks", "epochs", words, 3, needs=("ogbn-arxiv", 2),
                replayed=False)
    yield Check("card", "card_train", "plain",
                [f"{setting.build}/atoll", "train", setting.folder_of("ogbn-arxiv"), "--backend",
                 "cuda", "--spmm", "cusparse", "--exchange", "quantized", "--bits", "adaptive",
                 "--transport", "local", "--ranks", "2", "--epochs", "12", "--run-dir", "none"], 4,
                needs=("ogbn-arxiv", 2))


def attention(setting):
    """On the degrees of the real graph, whose hubs have thousands of neighbours."""
    for model in ("gatv2", "gat"):
        for precision in ("f32", "bf16"):
            yield Check("attention", f"epoch_{HUBS}_{model}_{precision}", "epochs",
                        bench(setting, HUBS, "--model", model, "--layers", "2", "--hidden", "256",
                              "--heads", "8", *PRECISIONS[precision]), 2, needs=(HUBS, 1))


def arxiv(setting):
    yield from epochs_of(setting, "arxiv", "ogbn-arxiv", 2)
    for name, replayed, options in (("batch", True, ["--norm", "batch"]),
                                    ("nograph", False, ["--cuda-graph", "off"])):
        yield Check("arxiv", f"epoch_ogbn-arxiv_gcn_{name}", "epochs",
                    bench(setting, "ogbn-arxiv", *options), 2, needs=("ogbn-arxiv", 1),
                    replayed=replayed)


# A last layer that aggregates first: then every SpMM of an epoch is 256 columns wide.
ONLY_256_WIDE = ["--layers", "2", "--hidden", "256", "--order", "aggregate-first"]


def spmm(setting):
    for dataset in ("ogbn-arxiv", "ogbn-products"):
        for precision in ("f32", "bf16"):
            yield Check("spmm", f"spmm_{dataset}_{precision}", "epochs",
                        bench(setting, dataset, *ONLY_256_WIDE, *PRECISIONS[precision], "--spmm",
                              "own"), 6,
                        needs=(dataset, 1))


def products(setting):
    yield from epochs_of(setting, "products", "ogbn-products", 8)


def libraries(setting):
    """Own SpMM against cuSPARSE: all kernels by their times on the same matrices (--spmm auto leaves
    them in calibration.json), and whole epochs with cuSPARSE's."""
    for dataset, seconds in (("ogbn-products", 8), ("ogbn-arxiv", 2)):
        for model, precision in (("gcn", "f32"), ("gcn", "bf16"), ("sage", "bf16"),
                                 ("sage", "f32")):
            task = ["--model", model, *PRECISIONS[precision]]
            for way, options in (("auto", ONLY_256_WIDE), ("cusparse", [])):
                yield Check("libraries", f"{way}_{dataset}_{model}_{precision}", "epochs",
                            bench(setting, dataset, *task, *options, "--spmm", way), seconds,
                            needs=(dataset, 1))


def kernels(setting):
    """Beside a measured copy and product; graphs have no locality."""
    for part, pattern, seconds in (("limits", "limit/", 12), ("spmm", "cuda/spmm", 180),
                                   ("dense", "cuda/(gemm|epilogue|adam)", 60),
                                   ("others", "-limit/|cuda/(spmm|gemm|epilogue|adam)", 60)):
        yield Check("kernels", f"kernels_{part}", "benchmarks",
                    [f"{setting.build}/bench_kernels", "--backends=cuda",
                     f"--scale={setting.scale}", f"--benchmark_filter={pattern}",
                     "--benchmark_repetitions=3", "--benchmark_report_aggregates_only=true",
                     "--benchmark_out_format=json"], seconds)


def peer(setting, stage, dataset, model, precision, adjacency, compiled, seconds):
    mode = "compiled" if compiled else "eager"
    words = [setting.python, "tests/peers/pyg_epoch.py", setting.folder_of(dataset), "--model",
             model, "--precision", precision, "--adjacency", adjacency, "--epochs",
             str(setting.epochs)]
    return Check(stage, f"peer_{dataset}_{model}_{precision}_{adjacency}_{mode}", "peer",
                 words + (["--compile"] if compiled else []), seconds, needs=(dataset, 1),
                 probe="torch")


def peers(setting):
    """PyTorch Geometric. Eager first: compiling takes longer than the epochs."""
    for compiled in (False, True):
        for dataset, seconds in (("ogbn-arxiv", 15), ("ogbn-products", 20)):
            for model in ("gcn", "sage"):
                for precision in ("bf16", "f32", "tf32"):
                    yield peer(setting, "peers", dataset, model, precision, "csr", compiled,
                               seconds + 40 * compiled)
    for adjacency in ("kept", "edge_index"):
        yield peer(setting, "peers", "ogbn-arxiv", "gcn", "f32", adjacency, False, 20)


def sanitizer(setting, tool, seconds):
    options = ["--tool", tool, "--error-exitcode", "9", "--kernel-regex", "kns=_ZN3atl4cuda"]
    if tool == "memcheck":  # a test asks for more memory than there is, and for the refusal
        options += ["--report-api-errors", "no"]
    yield Check(tool, f"sanitizer_{tool}", "tests",
                ["compute-sanitizer", *options, f"{setting.build}/test_kernels",
                 f"--gtest_filter={SANITIZED}"], seconds, probe=f"sanitizer:{tool}",
                environment={"ATOLL_TEST_SMALL": "1"})


def counters(setting):
    """Hardware counters of the kernels of an epoch; of products those of SpMM only, 256 and 47
    wide, because counting takes many passes over each."""
    sections = ["SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats"]
    profiler = ["ncu", "--csv", "--page", "details", "--clock-control", "none",
                "--target-processes", "all"]
    profiler += [word for section in sections for word in ("--section", section)]
    for dataset, launches, seconds in (("ogbn-products", ["--kernel-name", "regex:spmm",
                                                          "--launch-count", "24"], 60),
                                       ("ogbn-arxiv", ["--launch-count", "250"], 90)):
        for precision in ("bf16", "f32"):
            words = [f"{setting.build}/atoll", "bench", setting.folder_of(dataset), "--backend",
                     "cuda", "--warmup", "0", "--epochs", "1", "--cuda-graph", "off",
                     *PRECISIONS[precision]]
            yield Check("counters", f"counters_{dataset}_{precision}", "counters",
                        [*profiler, *launches, *words], seconds, needs=(dataset, 1), probe="ncu",
                        replayed=False)


def ranks(setting):
    """Several ranks on one device, and one that talks by NCCL."""
    dataset = "ogbn-arxiv"
    for count in (2, 4):
        yield Check("ranks", f"ranks_local_{count}", "epochs",
                    bench(setting, dataset, "--transport", "local", "--ranks", str(count), "--norm",
                          "batch"), 15, needs=(dataset, count), replayed=False)
        yield Check("ranks", f"ranks_mpi_{count}", "epochs",
                    ["mpirun", "--bind-to", "none", "-n", str(count),
                     *bench(setting, dataset, "--norm", "batch", profile=False)], 5,
                    needs=(dataset, count), probe="mpirun", replayed=False)
    yield Check("ranks", "ranks_nccl_1", "epochs",
                ["mpirun", "--bind-to", "none", "-n", "1",
                 *bench(setting, dataset, "--transport", "nccl", "--cuda-graph", "on",
                        profile=False)], 10, needs=(dataset, 1), probe="mpirun")
    yield Check("ranks", "ranks_mixed", "plain",
                [f"{setting.build}/atoll", "train", setting.folder_of(dataset), "--transport",
                 "local", "--ranks", "2", "--backend", "cuda,cpu", "--epochs", "5", "--eval-every",
                 "0", "--run-dir", "none"], 4, needs=(dataset, 2))


def reddit(setting):
    yield from epochs_of(setting, "reddit", "reddit", 20)
    for compiled in (False, True):
        for precision in ("bf16", "f32"):
            yield peer(setting, "reddit", "reddit", "gcn", precision, "csr", compiled,
                       40 + 40 * compiled)


# In this order, because a host may be taken back at any time: first what says whether anything
# works, then what the targets are about, then the peers, then what looks for faults that tests
# didn't show.
STAGES = {
    "start": start, "kernel_tests": kernel_tests, "arxiv": arxiv, "products": products,
    "spmm": spmm, "libraries": libraries, "card": card, "attention": attention, "tests": tests,
    "peers": peers, "kernels": kernels, "memcheck": lambda s: sanitizer(s, "memcheck", 60),
    "racecheck": lambda s: sanitizer(s, "racecheck", 60), "counters": counters, "ranks": ranks,
    "initcheck": lambda s: sanitizer(s, "initcheck", 120),
    "synccheck": lambda s: sanitizer(s, "synccheck", 90), "reddit": reddit,
}


def all_checks(setting):
    return [check for make in STAGES.values() for check in make(setting)]


def chosen_checks(setting, words):
    """The checks that a comma list names, by stage or by a pattern of names (epoch_*), in order of
    worth; all without a list. Throws ValueError for a word that names none."""
    checks = all_checks(setting)
    if not words:
        return checks
    chosen = set()
    for word in words.split(","):
        found = {check.name for check in checks
                 if word == check.stage or fnmatch.fnmatchcase(check.name, word)}
        if not found:
            raise ValueError(f"--checks: '{word}' names no stage and no check; stages are "
                             f"{', '.join(STAGES)}; --list shows the checks")
        chosen |= found
    return [check for check in checks if check.name in chosen]
