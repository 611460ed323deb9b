# The two commands that matter are `make study` and `make test`. Both do all the set-up they need.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
# Bytecode is kept: compiling all modules anew would be half of each start.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
AGENT_SOURCES := $(shell find agent tools -path agent/target -prune -o \( -name '*.rs' -o -name '*.toml' -o -name '*.lock' -o -name '*.[ch]' \) -print) $(wildcard agent/*.py)
DEBIAN := $(shell . /etc/os-release 2>/dev/null && echo $$VERSION_ID)
PACKAGES := build-essential python3-venv iproute2 ethtool clang libbpf-dev
# Debian 12 has it in user space; beside that of a kernel it would be in the way.
ZFS := $(if $(filter 12,$(DEBIAN)),$(if $(shell PATH=$$PATH:/usr/sbin command -v zpool),,zfs-fuse))
STORAGE_PACKAGES := netbase nfs-ganesha nfs-ganesha-vfs rpcbind nbdkit tgt qemu-system-common qemu-block-extra fuse3 e2fsprogs xfsprogs
TEST_PACKAGES := curl openssh-client openssh-server chromium chromium-driver bpftrace fio strace $(STORAGE_PACKAGES)
ENGINE_PACKAGES := podman runc busybox-static slurmctld slurmd slurm-client munge
# Debian 12 has a new enough one beside its `cargo`.
RUST_PACKAGES := $(if $(filter 12,$(DEBIAN)),cargo-web rustfmt-web rust-web-clippy,cargo rustfmt rust-clippy)
BENCH_PACKAGES := iperf3 bpftrace sockperf qperf nuttcp fio

# The tests' programs, their agent and clippy's warnings come from one build, static as what is released. It lies in
# ~/.cache/iodyno-build and serves every clone.
RUST = RUSTC_WORKSPACE_WRAPPER=clippy-driver RUSTFLAGS="-C force-frame-pointers=yes -C target-feature=+crt-static -D warnings" \
  $(PYTHON) agent/in_cache.py
TARGET = $(shell rustc -vV | sed -n 's/host: //p')
CARGO_TEST = cargo test --locked --quiet --target $(TARGET)
# Beside Python tests runs what minds nobody; by itself what has to be in time, looks at the whole machine, or shares programs in the kernel.
RUST_BESIDE := --bins $(patsubst %,--test %,allocation batch_calls block files golden many mutated pairs rings scripts traces trees)
RUST_ALONE := --lib $(patsubst %,--test %,agents block_times exact exact_faults exact_shared live queues quota rights syscall_times)
# Modules are compiled when they are used: of a hundred MiB of bytecode most never is.
# pip and uv lie there too, once for all clones: an environment has what is used in it.
INSTALLERS := $(HOME)/.cache/iodyno-build/installers
PIP := $(INSTALLERS)/bin/pip --python $(BIN)/python --quiet --disable-pip-version-check
PIP_INSTALL := $(PIP) install --no-compile
TEST_AGENT := $(CURDIR)/$(VENV)/agent/iodyno-agent
PROGRAMS := iodyno-agent iodyno-heat
PYTEST := IODYNO_AGENT=$(TEST_AGENT) $(BIN)/python -m pytest

.PHONY: help install man wheels packages image study test test-build truth lint fuzz faults bench docs schema build sandbox guest machine engines clean system system-test system-bench

help:            ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

study: build     ## characterise TCP transmit between two hosts made on this machine; writes and names report.html
	$(BIN)/iodyno run studies/tcp-transmit.yaml --quick
	@echo "iodyno: command: $(BIN)/iodyno; make install puts it into the PATH" >&2

# Tests of hosts come first, three at a time, as loads of more at once keep each other from being in time. They leave a
# quarter of two CPUs, which the rest of Python's tests take, and give way. Once they are through, Rust's tests and those in a
# machine of translated instructions run beside these. What is marked `alone` has all to itself.
# They are collected once before, as each worker would else compile all of them.
test: system-test                           ## everything that CI runs
	$(MAKE) --no-print-directory -j2 --output-sync=target lint
	failed=0; \
	$(PYTEST) --collect-only -qq >/dev/null; \
	{ code=0; \
	  $(PYTEST) tests/hosts -m 'not alone and not translated' -n 3 --durations=20 >$(VENV)/host-tests 2>&1 || code=1; \
	  $(RUST) $(CARGO_TEST) $(RUST_BESIDE) --no-fail-fast >$(VENV)/rust-tests 2>&1 & rust=$$!; \
	  $(PYTEST) $$(grep -rl 'mark.translated' tests --include='test_*.py') --durations=9 >$(VENV)/translated-tests 2>&1 || code=1; \
	  wait $$rust || code=1; exit $$code; } & beside=$$!; \
	nice -n 10 env $(PYTEST) --ignore=tests/hosts -m 'not alone and not translated' -n 3 --durations=20 || failed=1; \
	wait $$beside || failed=1; \
	cat $(VENV)/{host,rust,translated}-tests; \
	$(RUST) $(CARGO_TEST) $(RUST_ALONE) --no-fail-fast || failed=1; \
	$(PYTEST) $$(grep -rl 'mark.alone' tests --include='test_*.py') -m alone --durations=20 || failed=1; \
	exit $$failed

# Programs are built while the environment is made.
lint: $(VENV)/.test test-build              ## formats, types, import rules, warnings as errors
	$(BIN)/ruff format --check src tests bench tools agent/*.py
	$(BIN)/ruff check src tests bench tools agent/*.py
	$(BIN)/lint-imports --no-cache
	@command -v rustfmt clippy-driver >/dev/null || { echo "rustfmt or clippy is missing: rustup component add rustfmt clippy" >&2; exit 1; }
	cd agent && cargo fmt --check
	$(BIN)/mypy --cache-dir $(HOME)/.cache/iodyno-build/mypy

define test-build
mkdir -p $(dir $(TEST_AGENT)) && $(RUST) sh -ec '$(CARGO_TEST) --tests --no-run; cd target/$(TARGET)/debug; for program in $(PROGRAMS); do \
	  cp $$program $(dir $(TEST_AGENT))$$program.new; mv $(dir $(TEST_AGENT))$$program.new $(dir $(TEST_AGENT))$$program; done' && \
	  cd $(dir $(TEST_AGENT)) && { ./iodyno-agent --version | sed 's/.* //'; sha256sum $(PROGRAMS); } >BUILD
endef

test-build: | system
	$(test-build)

$(TEST_AGENT): $(VENV)/.test $(AGENT_SOURCES)
	$(test-build)

fuzz: $(TEST_AGENT)                         ## the properties with examples drawn anew each time; each parser with N changed inputs (10000)
	PROPTEST_RNG_SEED=$$RANDOM PROPTEST_CASES=1000 IODYNO_FUZZ_INPUTS=$(or $(N),10000) $(RUST) $(CARGO_TEST) --tests
	IODYNO_FUZZ=1 $(PYTEST) $$(grep -rl '^from hypothesis' tests --include='test_*.py')
	$(BIN)/python tests/fuzz.py --inputs $(or $(N),10000)

faults: $(TEST_AGENT)                       ## N kills (1000) of labs, agents, guards and ssh at random times, as root; prints what they leave
	IODYNO_AGENT=$(TEST_AGENT) $(BIN)/python tests/kills.py --kills $(or $(N),1000) $(if $(SEED),--seed $(SEED))

truth: $(TEST_AGENT)                        ## all draws of the tests that count how often an interval holds (a fifth in `test`)
	IODYNO_FULL=1 $(PYTEST) -q $$(grep -rl '^from draws' tests --include='test_*.py') -n 2

docs: $(TEST_AGENT)                         ## execute the blocks of the pages that are marked sh or python, each command anew
	IODYNO_FULL=1 $(PYTEST) -q tests/docs

bench: build $(VENV)/.test system-bench     ## compare with peers, side by side, in ratios (about 5 minutes)
	$(BIN)/python -m bench

schema: build $(VENV)/.test                 ## write the schemas of the wire and the store anew
	$(BIN)/iodyno-agent schema schema
	IODYNO_UPDATE=1 $(BIN)/python -m pytest -q tests/contract/test_manifest_schema.py
	cd agent && IODYNO_UPDATE=1 cargo test --locked --quiet -p iodyno-core --test golden

build: $(VENV)/.study                       ## the agent and the `iodyno` command in .venv

install: man                                ## put the commands of this checkout, their manual and completion into ~/.local
	mkdir -p $(HOME)/.local/bin
	ln -sf $(CURDIR)/$(BIN)/iodyno $(CURDIR)/$(BIN)/iodyno-agent $(HOME)/.local/bin
	cp -r build/share $(HOME)/.local

man: build                                  ## write manual pages and completion scripts into build/share
	rm -rf build/share
	$(BIN)/python tools/package/man.py build/share/man/man1
	cd build/share && mkdir -p bash-completion/completions zsh/site-functions fish/vendor_completions.d
	$(BIN)/iodyno completion bash >build/share/bash-completion/completions/iodyno
	$(BIN)/iodyno completion zsh >build/share/zsh/site-functions/_iodyno
	$(BIN)/iodyno completion fish >build/share/fish/vendor_completions.d/iodyno.fish

# For this machine's architecture, and for the other one where its cross compiler is there.
MACHINE := $(shell uname -m)
OTHER := $(if $(filter x86_64,$(MACHINE)),aarch64,x86_64)
ARCHITECTURES ?= $(MACHINE) $(if $(shell command -v $(OTHER)-linux-gnu-gcc),$(OTHER))
wheels: man                                 ## build into dist/ a wheel for x86-64, arm64 or both: what can be built here
	rm -f dist/*.whl
	IODYNO_ARCHITECTURES="$(ARCHITECTURES)" $(PIP) wheel --no-deps --wheel-dir dist .

NFPM ?= $(shell command -v nfpm || echo go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0)
packages: wheels                            ## build into dist/ a .deb and an .rpm for this machine's architecture and Python
	rm -rf build/root dist/*.deb dist/*.rpm
	PIP="$(PIP)" sh tools/package/root.sh $(BIN)/python build/root
	export PYTHON=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])') \
	  ARCH=$(if $(filter x86_64,$(MACHINE)),amd64,arm64) VERSION=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml); \
	for kind in deb rpm; do $(NFPM) package --config tools/package/nfpm.yaml --packager $$kind --target dist; done

# What a bind mount shows counts for nothing in the cache of layers: an old .deb would stay.
PODMAN ?= podman
image: packages                             ## build the container images iodyno-agent and iodyno with podman
	for image in agent:iodyno-agent lab:iodyno; do \
	  $(PODMAN) build --no-cache $(if $(BASE),--build-arg BASE=$(BASE)) --build-arg ARCHITECTURE=$(MACHINE) --file tools/package/Containerfile \
	    --target $${image%:*} --tag $${image#*:} .; done

sandbox:                                    ## build runsc (gVisor) into ~/.cache/iodyno, for the level sandbox of path
	@command -v go >/dev/null || { echo "go is missing: install Go 1.24 or newer, or put a runsc into the PATH" >&2; exit 1; }
	CGO_ENABLED=0 GOBIN=$(HOME)/.cache/iodyno go install gvisor.dev/gvisor/runsc@latest

GUEST := $(HOME)/.cache/iodyno/guest
FULL_GUEST := $(HOME)/.cache/iodyno/machine
guest:                                      ## install QEMU and unpack Debian's cloud kernel into ~/.cache/iodyno, for the level guest of path
	$(call require,qemu-system-x86 busybox-static,the level guest needs them)
	$(call unpack-kernel,linux-image-cloud-amd64,$(GUEST))
	rm -rf $(GUEST)/unpacked

machine:                                    ## the same of Debian's full kernel, for tests on adapters, disks and NUMA nodes of a machine
	$(call require,qemu-system-x86 busybox-static,the machine needs them)
	$(call unpack-kernel,linux-image-amd64,$(FULL_GUEST))
	rm -rf $(FULL_GUEST)/lib $(FULL_GUEST)/unpacked/lib/modules/*/kernel/{sound,drivers/{gpu,media,staging}}
	busybox depmod -b $(FULL_GUEST)/unpacked "$$(ls $(FULL_GUEST)/unpacked/lib/modules)"
	mv $(FULL_GUEST)/unpacked/lib $(FULL_GUEST) && rm -rf $(FULL_GUEST)/unpacked

# The package named first, and the kernel that it depends on, into a folder.
define unpack-kernel
	mkdir -p $(2)/unpacked
	kernel=$$(apt-cache depends $(1) | sed -n 's/ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -1); \
	  cd $(2) && rm -f ./*.deb && apt-get download -qq "$$kernel" && dpkg-deb -x ./*.deb unpacked && rm ./*.deb
	cp $(2)/unpacked/boot/vmlinuz-* $(2)/vmlinuz
	find $(2)/unpacked \( -name 'virtio*.ko' -o -name '*failover.ko' -o -name '*vsock*.ko' -o -name sctp.ko -o -name libcrc32c.ko \
	  -o -name '*udp_tunnel.ko' -o -name '9p*.ko' -o -name netfs.ko -o -name fscache.ko \) -exec cp {} $(2) \;
	cp /bin/busybox $(2)/busybox
endef

engines:                                    ## install podman and Slurm, for the tests of hosts that are containers and nodes
	$(call require,$(ENGINE_PACKAGES),tests of containers and of Slurm are skipped)

clean:                                      ## remove what the targets above made, but no campaign
	rm -rf $(VENV) agent/target src/iodyno/_bin build dist

# What must be on the system: installed where we may, named where we may not.
define require
	@missing=(); for package in $(1); do \
	  dpkg-query -W -f='$${Status}' "$$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$$package"); done; \
	if [ $${#missing[@]} -gt 0 ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing $${missing[*]}" >&2; \
	    export DEBIAN_FRONTEND=noninteractive; apt-get update -qq >&2; \
	    apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null; \
	  else echo "not installed: $${missing[*]}; as root: apt-get install $${missing[*]} ($(2))" >&2; fi; fi
endef

RUST_IS_NEW := printf 'cargo 1.85\n%s\n' "$$(cargo --version 2>/dev/null)" | sort --version-sort --check=silent

system:
	@if command -v dpkg-query >/dev/null; then :; else echo "not a Debian: install the like of $(PACKAGES) yourself" >&2; exit 0; fi
	$(call require,$(if $(shell command -v cc),,build-essential) $(if $(shell $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null && echo yes),,python3-venv) $(if $(shell command -v ip),,iproute2) $(if $(shell PATH=$$PATH:/usr/sbin command -v ethtool),,ethtool) $(if $(shell command -v clang),,clang) $(if $(wildcard /usr/include/bpf/bpf_helpers.h),,libbpf-dev),the build needs them)
	$(call require,$(if $(shell $(RUST_IS_NEW) && echo yes),,$(RUST_PACKAGES)),the build needs Rust 1.85 or newer)
	@$(RUST_IS_NEW) || { echo "cargo is missing or older than 1.85: install a newer one, see https://rustup.rs" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11: install a newer one and say PYTHON=python3.x" >&2; exit 1; }

# The last one starts a service when it is installed, which may fail.
system-test: system
	$(call require,$(TEST_PACKAGES),tests that need them will be skipped)
	-$(call require,$(ZFS),the test of ZFS will be skipped)

system-bench: system
	$(call require,$(BENCH_PACKAGES),the peers that are compared with)

$(VENV)/bin/python: | system
	$(PYTHON) -m venv --without-pip $(VENV)
	@$(INSTALLERS)/bin/pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(INSTALLERS)

$(VENV)/.study: $(VENV)/bin/python pyproject.toml $(AGENT_SOURCES)
	$(PIP_INSTALL) -e .
	@touch $@

# The agent of the tests is another one, so that none is built here. Selenium is to take the system's browser: what would fetch
# one, for four systems, is not kept.
# uv takes a fifth of pip's time; where it finds no index, as only pip's configuration names one, pip does it.
$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	@$(INSTALLERS)/bin/uv --version >/dev/null 2>&1 || $(INSTALLERS)/bin/pip install --quiet --disable-pip-version-check uv
	export IODYNO_AGENT=$(TEST_AGENT); \
	  $(INSTALLERS)/bin/uv pip install --quiet --python $(BIN)/python -e '.[dev]' || $(PIP_INSTALL) -e '.[dev]'
	rm -f $(VENV)/lib/python3*/site-packages/selenium/webdriver/common/*/selenium-manager*
	@touch $@
