"""DNS as others wrote it, in a network namespace: knot and nsd as servers of zones with a delegation, unbound as resolvers.

The root and `test.` are knot's, the zones below them knot's and nsd's both, from the same files. `test.` is signed and knows the
DS record of `signed.test.`; the resolvers trust the key of `test.`, and find everything from the root on, as they do outside.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

PACKAGES = ("knot", "knot-dnsutils", "nsd", "unbound")
PROGRAMS = ("knotd", "knotc", "keymgr", "kdig", "nsd", "unbound")
PORT = 53  # a delegation knows no other
REGISTRY, KNOT, NSD = "127.0.10.1", "127.0.20.1", "127.0.20.2"
HOSTS = {"ns1.hosting.test.": KNOT, "ns2.hosting.test.": NSD}
SIGNED = "signed.test."
NEGATIVE_TTL = 3600  # so long would a resolver go on saying that a record is not there
TTL = 600

PATH = f"{os.environ['PATH']}:/usr/sbin"


def program(name):
    return shutil.which(name, path=PATH)


def install():
    if all(program(name) for name in PROGRAMS):
        return
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    # Their packages would start servers that nobody here uses.
    for unit in ("knot", "nsd", "unbound"):
        subprocess.run([*as_root, "ln", "-sf", "/dev/null", f"/etc/systemd/system/{unit}.service"], check=True)
    env = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"]
    for words in (["update"], ["-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends", *PACKAGES]):
        subprocess.run([*as_root, *env, "apt-get", *words], check=True, stdout=sys.stderr, stdin=subprocess.DEVNULL)


def enter_namespace(words):
    """Runs `words` again where nothing is but this process and what it starts, with port 53 free. Does not come back."""
    unshare = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        raise SystemExit("this judge needs a network namespace of its own, and may not make one (unshare)")
    os.execvp(unshare[0], [*unshare, *words])


def raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # SIOCSIFFLAGS: up and running.
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 0x41))


def ask(server, name, kind="TXT", *options):
    """What kdig hears: the data of each record, sorted."""
    words = ["kdig", f"@{server}", name, kind, "+short", "+timeout=3", "+retry=0", *options]
    said = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    return sorted(line.strip() for line in said.splitlines() if line.strip() and not line.startswith(";"))


def wait(found, what, seconds=20):
    deadline = time.monotonic() + seconds
    while not (answer := found()):
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds} s still not: {what}")
        time.sleep(0.05)
    return answer


def listens(server):
    """Over TCP, where a closed port says so at once."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((server, PORT)) == 0


class Process:
    def __init__(self, folder, words):
        self.folder, self.words, self.running = folder, words, None

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self.running = subprocess.Popen([program(self.words[0]), *self.words[1:]], stdout=log, stderr=log)

    def stop(self):
        if self.running:
            self.running.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.running.wait(10)
            self.running.kill()
            self.running.wait()
            self.running = None

    def log(self):
        return (self.folder / "log").read_text(errors="replace")[-2000:]


class Knot(Process):
    def __init__(self, folder, address, zones):
        (folder / "db").mkdir(parents=True)
        self.conf = folder / "knot.conf"
        super().__init__(folder, ["knotd", "-c", str(self.conf)])
        parts = [
            f'server:\n  rundir: "{folder}"\n  listen: {address}@{PORT}\n',
            f'control:\n  listen: "{folder}/socket"\n',
            f'database:\n  storage: "{folder}/db"\n',
            "log:\n  - target: stderr\n    any: warning\n",
            "policy:\n  - id: one\n    algorithm: ecdsap256sha256\n    single-type-signing: on\n",
            "zone:\n",
        ]
        for name, (file, signed) in zones.items():
            parts.append(f'  - domain: "{name}"\n    file: "{file}"\n    zonefile-sync: -1\n')
            if signed:
                parts.append("    zonefile-load: difference-no-serial\n    journal-content: all\n")
                parts.append("    dnssec-signing: on\n    dnssec-policy: one\n")
        self.conf.write_text("".join(parts))

    def reload(self, name):
        control = [program("knotc"), "-b", "-s", str(self.folder / "socket"), "zone-reload", name]
        subprocess.run(control, check=True, stdout=subprocess.DEVNULL)

    def ds(self, name):
        """The DS record of a zone that it signs, as data alone."""
        def line():
            words = [program("keymgr"), "-c", str(self.conf), name, "ds"]
            said = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
            found = [line.split(" DS ", 1)[1] for line in said.stdout.splitlines() if " DS " in line]
            return [data for data in found if data.split()[2] == "2"]

        return wait(line, f"the DS record of {name}")[0]


class Nsd(Process):
    def __init__(self, folder, address, zones):
        folder.mkdir()
        conf = folder / "nsd.conf"
        super().__init__(folder, ["nsd", "-d", "-c", str(conf)])
        zone = "".join(f'zone:\n  name: "{name}"\n  zonefile: "{file}"\n' for name, (file, _) in zones.items())
        conf.write_text(
            f'server:\n  ip-address: {address}\n  port: {PORT}\n  username: ""\n  chroot: ""\n  zonesdir: "{folder}"\n'
            f'  database: ""\n  zonelistfile: "{folder}/list"\n  pidfile: "{folder}/pid"\n  xfrdfile: "{folder}/xfrd"\n'
            f'  xfrdir: "{folder}"\n  do-ip6: no\n  server-count: 1\nremote-control:\n  control-enable: no\n{zone}'
        )

    def reload(self, _name):
        self.running.send_signal(signal.SIGHUP)


class Unbound(Process):
    """A resolver that checks signatures. `lines` are more of its configuration, such as the lies that it tells."""

    def __init__(self, folder, address):
        folder.mkdir()
        self.address, self.conf = address, folder / "unbound.conf"
        self.anchor = ""
        super().__init__(folder, ["unbound", "-d", "-c", str(self.conf)])

    def become(self, lines=(), anchor=None):
        """Begins anew, with nothing in its memory."""
        self.stop()
        hints = self.folder / "hints"
        hints.write_text(f". 3600 NS ns.root.\nns.root. 3600 A {REGISTRY}\n")
        more = "".join(f"  {line}\n" for line in lines)
        self.conf.write_text(
            f'server:\n  interface: {self.address}\n  port: {PORT}\n  do-daemonize: no\n  username: ""\n  chroot: ""\n'
            f'  directory: "{self.folder}"\n  pidfile: ""\n  use-syslog: no\n  logfile: ""\n  verbosity: 1\n  num-threads: 1\n'
            f"  access-control: 127.0.0.0/8 allow\n  do-not-query-localhost: no\n  do-ip6: no\n"
            # It thinks that there is no such zone, and says so itself, unless it is told otherwise.
            f'  local-zone: "test." nodefault\n'
            f'  root-hints: "{hints}"\n  module-config: "validator iterator"\n  trust-anchor: "test. DS {anchor or self.anchor}"\n'
            f"{more}remote-control:\n  control-enable: no\n"
        )
        self.start()
        wait(lambda: listens(self.address) and ask(self.address, ".", "SOA"), f"the resolver {self.address}: {self.log()}")

    def be_honest(self):
        self.become()

    def lie(self, name, value):
        """It has this value at the name, whatever the zone says; `None`: there is no such name."""
        lie = [f'local-data: \'{name}. 60 IN TXT "{value}"\''] if value else [f'local-zone: "{name}." always_nxdomain']
        self.become(lie)

    def fail(self):
        """Everything below `test.` is signed wrongly, as it sees it: SERVFAIL."""
        self.become(anchor=f"1 13 2 {'0' * 64}")

    def die(self):
        self.stop()


class Nameservers:
    """`with Nameservers(folder, ["acme.test."], 6) as dns:` has them all running."""

    def __init__(self, folder, zones, resolvers):
        self.folder = folder
        self.files = folder / "zones"
        self.files.mkdir()
        self.serial = 1
        self.records = {name: [] for name in ("hosting.test.", *zones, SIGNED)}
        shared = {name: (self.file(name), False) for name in self.records if name != SIGNED}
        self.knot = Knot(folder / "knot", KNOT, {**shared, SIGNED: (self.file(SIGNED), True)})
        self.nsd = Nsd(folder / "nsd", NSD, shared)
        top = {".": (self.file("root."), False), "test.": (self.file("test."), True)}
        self.registry = Knot(folder / "registry", REGISTRY, top)
        self.resolvers = [Unbound(folder / f"unbound-{n}", f"127.0.30.{n}") for n in range(1, resolvers + 1)]

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in (*self.resolvers, self.knot, self.nsd, self.registry):
            process.stop()

    def start(self):
        self.records["hosting.test."] = [f"{host} A {address}" for host, address in HOSTS.items()]
        # A name server at an address that nobody may call.
        self.records["hosting.test."].append("ns9.hosting.test. A 10.0.0.1")
        for name in self.records:
            self.write(name)
        self.knot.start()
        self.nsd.start()
        for server in (KNOT, NSD):
            wait(lambda server=server: listens(server) and ask(server, "hosting.test.", "SOA"), f"{server}: {self.knot.log()} {self.nsd.log()}")
        self.signed_ds = self.knot.ds(SIGNED)
        self.write_top(self.signed_ds)
        self.registry.start()
        wait(lambda: listens(REGISTRY) and ask(REGISTRY, "test.", "SOA"), f"the registry: {self.registry.log()}")
        anchor = self.registry.ds("test.")
        for resolver in self.resolvers:
            resolver.anchor = anchor
            resolver.be_honest()

    def file(self, name):
        return self.files / f"{name}zone"

    def hosts(self, name):
        return ["ns1.hosting.test."] if name == SIGNED else list(HOSTS)

    def write(self, name, extra_hosts=()):
        lines = [
            f"$ORIGIN {name}",
            f"$TTL {TTL}",
            f"@ SOA ns1.hosting.test. hostmaster.hosting.test. {self.serial} 3600 600 86400 {NEGATIVE_TTL}",
            *(f"@ NS {host}" for host in (*self.hosts(name), *extra_hosts)),
            *self.records[name],
        ]
        self.file(name).write_text("\n".join(lines) + "\n")

    def write_top(self, signed_ds):
        """The root, and `test.`, which delegates every zone."""
        soa = f"@ SOA ns.root. hostmaster.root. {self.serial} 3600 600 86400 60"
        self.file("root.").write_text(
            f"$ORIGIN .\n$TTL 3600\n{soa}\n@ NS ns.root.\nns.root. A {REGISTRY}\ntest. NS ns.root.\n"
        )
        lines = ["$ORIGIN test.", "$TTL 60", soa, "@ NS ns.root.", f"{SIGNED} DS {signed_ds}"]
        lines += [f"{name} NS {host}" for name in self.records for host in self.hosts(name)]
        lines += [f"{host} A {address}" for host, address in HOSTS.items()]
        self.file("test.").write_text("\n".join(lines) + "\n")

    def publish(self, zone, *records, extra_hosts=()):
        """Lets these be all records of a zone, such as `_x.acme.test. TXT "1"`, at both of its servers."""
        self.serial += 1
        mark = f"changed-{self.serial}"
        self.records[zone] = [*records, f'{mark}.{zone} TXT "{mark}"']
        self.write(zone, extra_hosts)
        servers = [self.knot] if zone == SIGNED else [self.knot, self.nsd]
        for server in servers:
            server.reload(zone)
        for address in (HOSTS[host] for host in self.hosts(zone)):
            wait(lambda address=address: ask(address, f"{mark}.{zone}"), f"{zone} at {address}")

    def break_signatures(self):
        """The DS record of `signed.test.` is of a key that it does not have; resolvers have forgotten the right one."""
        self.serial += 1
        tag, *rest, _ = self.signed_ds.split()
        self.write_top(" ".join([tag, *rest, "0" * 64]))
        self.registry.reload("test.")
        wait(lambda: "0" * 64 in "".join(ask(REGISTRY, SIGNED, "DS")).replace(" ", ""), "the broken DS record")
        for resolver in self.resolvers:
            resolver.be_honest()
