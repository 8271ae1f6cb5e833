import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Terminal } from "./_terminal.ts";

const FRONT = fileURLToPath(new URL("_front.mjs", import.meta.url));

/** Where a connection ends: a Unix socket, or a port of the machine itself. */
export type End = { readonly path: string } | { readonly port: number };

export interface MachineOptions {
  /** Host names of other machines, which answer https on port 443. */
  readonly hosts?: Readonly<Record<string, End>>;
  /** Ports that answer on every name. */
  readonly ports?: Readonly<Record<number, End>>;
}

/**
 * A machine for the commands of the pages: a network, names of hosts, processes, /srv and /var/lib of its own. What runs on it
 * ends with it, or with this process.
 */
export class Machine {
  readonly home = mkdtempSync(join(tmpdir(), "machine-"));
  readonly #ns: ChildProcess;
  readonly #env: Readonly<Record<string, string>>;
  #pid = 0;
  #terminals = 0;

  private constructor(env: Readonly<Record<string, string>>, { hosts = {} }: MachineOptions) {
    this.#env = env;
    // The names of people's databases lead here, too.
    const names = ["localhost", "db.example.com", ...Object.keys(hosts)];
    writeFileSync(this.at("hosts"), `127.0.0.1 ${names.join(" ")}\n`);
    certify(this.home, names);
    const script = [
      "ip link set lo up",
      `mount --bind '${this.at("hosts")}' /etc/hosts`,
      "mount -t tmpfs tmpfs /srv",
      "mount -t tmpfs tmpfs /var/lib",
      "echo open",
      "exec cat",
    ].join(" && ");
    const args = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script];
    this.#ns = spawn("unshare", args, { stdio: ["pipe", "pipe", "inherit"] });
  }

  static async start(
    env: Readonly<Record<string, string>> = {},
    options: MachineOptions = {},
  ): Promise<Machine> {
    const machine = new Machine(env, options);
    await said(machine.#ns, "open");
    const { pid } = machine.#ns;
    machine.#pid = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8"));
    const { hosts = {}, ports = {} } = options;
    const front = {
      ports: [
        { port: 443, tls: true, to: hosts },
        ...Object.entries(ports).map(([port, end]) => ({ port: Number(port), to: { "*": end } })),
      ],
      key: machine.at("key.pem"),
      cert: machine.at("cert.pem"),
    };
    const child = machine.#spawn([process.execPath, FRONT, JSON.stringify(front)]);
    await said(child, "open");
    return machine;
  }

  at(name: string): string {
    return join(this.home, name);
  }

  /** A terminal with a shell in a folder of the home, which is made where it is missing. */
  async terminal(folder = ".", env: Readonly<Record<string, string>> = {}): Promise<Terminal> {
    mkdirSync(this.at(folder), { recursive: true });
    const child = this.#spawn(Terminal.command, env);
    const terminal = new Terminal(child, `terminal ${++this.#terminals}`);
    await terminal.open(this.at(folder));
    return terminal;
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#ns.once("exit", resolve));
    this.#ns.kill("SIGKILL");
    await ended;
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5 });
  }

  #spawn(command: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
    const args = ["--target", String(this.#pid), "--net", "--mount", "--pid", ...command];
    return spawn("nsenter", args, {
      stdio: ["pipe", "pipe", "inherit"],
      env: {
        ...{ PATH: process.env.PATH, TMPDIR: this.home, LANG: "C.UTF-8", TERM: "xterm", HOME: this.home },
        ...{ NODE_EXTRA_CA_CERTS: this.at("cert.pem"), CURL_CA_BUNDLE: this.at("cert.pem") },
        ...this.#env,
        ...env,
      },
    });
  }
}

/** A certificate for these names, signed by itself. */
function certify(folder: string, names: readonly string[]): void {
  const alt = names.map((name) => `DNS:${name}`).join(",");
  const args =
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost".split(" ");
  const files = ["-keyout", join(folder, "key.pem"), "-out", join(folder, "cert.pem")];
  execFileSync("openssl", [...args, "-addext", `subjectAltName=${alt}`, ...files], { stdio: "ignore" });
}

function said(child: ChildProcess, word: string): Promise<void> {
  return new Promise((resolve, reject) => {
    child.stdout!.on("data", (chunk: Buffer) => chunk.toString().includes(word) && resolve());
    child.once("exit", (code) => reject(new Error(`ended with ${code}`)));
  });
}
