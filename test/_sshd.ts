import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findSshd } from "./_require.ts";

/** An ssh server on this machine, with keys and a configuration of its own. */
export interface Sshd {
  /** The client's configuration: `server` is a host in it. */
  readonly config: string;
  readonly folder: string;
  /**
   * A further host whose commands run as this shell command, which gets them in `$SSH_ORIGINAL_COMMAND`; resolves with the
   * configuration.
   */
  restricted(name: string, command: string): string;
  /** The configuration with other lines before it. */
  withLines(name: string, lines: readonly string[]): string;
  close(): Promise<void>;
}

/** Starts sshd as an ordinary process on a port of the loopback address. */
export async function startSshd(): Promise<Sshd> {
  const folder = mkdtempSync(join(tmpdir(), "svc-sshd-"));
  const at = (name: string) => join(folder, name);
  mkdirSync("/run/sshd", { recursive: true, mode: 0o755 });
  const keygen = (name: string) =>
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", at(name)]);
  keygen("host");
  keygen("user");
  writeFileSync(at("authorized"), readFileSync(at("user.pub")), { mode: 0o600 });
  const port = await freePort();
  writeFileSync(
    at("sshd_config"),
    [
      `Port ${port}`,
      "ListenAddress 127.0.0.1",
      `HostKey ${at("host")}`,
      `AuthorizedKeysFile ${at("authorized")}`,
      `PidFile ${at("pid")}`,
      "StrictModes no",
      "UsePAM no",
      "PasswordAuthentication no",
      "KbdInteractiveAuthentication no",
      "PermitRootLogin prohibit-password",
      "MaxStartups 100",
      "MaxSessions 100",
      // Bash reads the user's .bashrc for each command over ssh, unless it is a shell within a shell.
      "SetEnv SHLVL=2",
      "",
    ].join("\n"),
  );
  const server = spawn(findSshd() ?? "sshd", ["-D", "-e", "-f", at("sshd_config")], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  await new Promise<void>((resolve, reject) => {
    server.stderr.on("data", (chunk: Buffer) => {
      said += chunk.toString();
      if (said.includes("Server listening")) resolve();
    });
    server.once("exit", () => reject(new Error(`sshd has ended: ${said}`)));
  });
  const hostKey = readFileSync(at("host.pub"), "utf8").trim();
  writeFileSync(at("known"), `[127.0.0.1]:${port} ${hostKey}\n`);

  function client(name: string, key: string, lines: readonly string[] = []): string {
    const text = [
      ...lines,
      "Host server",
      "HostName 127.0.0.1",
      `Port ${port}`,
      "User root",
      `IdentityFile ${at(key)}`,
      "IdentitiesOnly yes",
      `UserKnownHostsFile ${at("known")}`,
      "GlobalKnownHostsFile /dev/null",
      "StrictHostKeyChecking yes",
      "",
    ];
    writeFileSync(at(`${name}.config`), text.join("\n"));
    return at(`${name}.config`);
  }

  return {
    folder,
    config: client("user", "user"),
    withLines: (name, lines) => client(name, "user", ["Host server", ...lines]),
    restricted(name, command) {
      if (!existsSync(at(name))) keygen(name);
      const key = readFileSync(at(`${name}.pub`), "utf8").trim();
      const line = `command="${command.replaceAll('"', '\\"')}" ${key}\n`;
      writeFileSync(at("authorized"), line, { flag: "a" });
      return client(name, name);
    },
    async close() {
      const ended = new Promise((resolve) => server.once("exit", resolve));
      server.kill();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}
