import { DeployError } from "../../../deploy/errors.ts";
import type { Finding, SetupAction, SetupConsent } from "../../../deploy/platform.ts";
import { type Context, onServer } from "./context.ts";
import { isLocal, preflight } from "./preflight.ts";

/** What a server says about itself; all of it is read without changing anything. */
interface Facts {
  readonly user: string;
  readonly isRoot: boolean;
  readonly groups: readonly string[];
  /** Whether the user may become root without a password. */
  readonly sudo: boolean;
  readonly apt: boolean;
  readonly systemd: boolean;
  readonly docker: "missing" | "stopped" | "there";
  /** Whether the user may use Docker, by its group or in another way. */
  readonly usable: boolean;
  /** Whether the firewall `ufw` is active. */
  readonly ufw: boolean;
}

const READ = `has() { command -v "$1" >/dev/null 2>&1; }
  yes() { "$@" >/dev/null 2>&1 && echo yes; }
  root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
  echo "user=$(id -un)"; echo "uid=$(id -u)"; echo "groups=$(id -nG)"
  echo "sudo=$(yes sudo -n true)"; echo "apt=$(yes has apt-get)"
  echo "systemd=$(yes has systemctl)"
  echo "docker=$(yes has docker)"; echo "usable=$(yes docker version)"; echo "engine=$(yes docker version || yes root docker version)"
  echo "ufw=$(root ufw status 2>/dev/null | head -n 1)"`;

async function readFacts(context: Context): Promise<Facts> {
  const text = await onServer(context, `${context.ssh.host} could not be checked`, READ);
  const said = new Map(text.split("\n").map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]));
  const is = (name: string) => said.get(name) === "yes";
  return {
    user: said.get("user") ?? "",
    isRoot: said.get("uid") === "0",
    groups: (said.get("groups") ?? "").split(" "),
    sudo: is("sudo"),
    apt: is("apt"),
    systemd: is("systemd"),
    docker: !is("docker") ? "missing" : is("engine") ? "there" : "stopped",
    usable: is("usable"),
    ufw: /\bactive$/.test(said.get("ufw") ?? ""),
  };
}

/**
 * Prepares a server for deployments: Docker from the packages of its system, running, and usable for the user. Asks once before
 * it changes anything; a server that is ready is not changed.
 */
export async function setupServer(context: Context, consent: SetupConsent): Promise<Finding[]> {
  const { ssh, tools } = context;
  const facts = await readFacts(context);
  const actions = actionsFor(facts);
  if (actions.length > 0) {
    refuseImpossible(context, facts, actions);
    if (!(await consent(actions)))
      throw new DeployError("declined", `${ssh.host} was not set up: declined`, {
        outcome: "Nothing was changed",
      });
    for (const { what, command } of actions) {
      tools.report(what);
      await asRoot(context, facts, what, command);
    }
    const now = await readFacts(context);
    // A package does not start its service where the system forbids that.
    if (now.docker === "stopped" && facts.docker === "missing")
      await asRoot(context, facts, START.what, START.command);
    // A connection has the groups of the time when it was opened.
    await ssh.close();
  }
  return [
    ...actions.map(({ what }) => ({ level: "ok" as const, subject: "Done", message: what })),
    ...(await preflight(context)),
    ...firewallFindings(context, facts),
  ];
}

/** With what the package recommends: since Debian 13 the command `docker` itself is among it. */
const INSTALL: SetupAction = {
  what: "Install Docker from the packages of the system (docker.io), and start it",
  command:
    "export DEBIAN_FRONTEND=noninteractive; dpkg --configure -a && apt-get -o DPkg::Lock::Timeout=300 update && apt-get -o DPkg::Lock::Timeout=300 install --yes docker.io",
};
const START: SetupAction = {
  what: "Start Docker, now and whenever the server starts",
  command: "systemctl enable --now docker",
};

function actionsFor(facts: Facts): SetupAction[] {
  const { user, isRoot, groups, docker, usable } = facts;
  const join: SetupAction = {
    what: `Add ${user} to the group docker: who is in it controls the whole server`,
    command: `usermod -aG docker ${user}`,
  };
  return [
    ...(docker === "missing" ? [INSTALL] : []),
    ...(docker === "stopped" ? [START] : []),
    ...(isRoot || usable || groups.includes("docker") ? [] : [join]),
  ];
}

/** Rejects, before anything is changed, with the commands for somebody who may run them. */
function refuseImpossible(
  { ssh }: Context,
  { user, isRoot, sudo, apt, systemd, docker }: Facts,
  actions: readonly SetupAction[],
): void {
  const refuse = (message: string, fix: string) =>
    new DeployError("preflight", message, { outcome: "Nothing was changed", fix });
  if (docker === "missing" && !apt)
    throw refuse(
      `${ssh.host} has no apt-get: Docker is only installed on Debian, Ubuntu and their relatives`,
      "Install Docker on the server, and run the command again: https://docs.docker.com/engine/install/",
    );
  if (docker === "stopped" && !systemd)
    throw refuse(`Docker does not run on ${ssh.host}, which has no systemd`, "Start Docker on the server");
  if (!isRoot && !sudo)
    throw refuse(
      `The user ${user} on ${ssh.host} is neither root nor may use sudo without a password`,
      `Run this as root on the server:\n${actions.map(({ command }) => `  ${command}`).join("\n")}`,
    );
}

async function asRoot(context: Context, { isRoot }: Facts, what: string, command: string): Promise<void> {
  const script = isRoot ? 'exec sh -c "$1"' : 'exec sudo -n sh -c "$1"';
  await onServer(context, `${context.ssh.host} was not set up: ${what}`, script, [command]);
}

function firewallFindings({ target }: Context, { ufw }: Facts): Finding[] {
  const ports = target.flags.domain === undefined ? String(target.port) : "80 and 443";
  const isInner = target.flags.domain === undefined && isLocal(target.flags.bind);
  const hint: Finding = {
    level: "ok",
    subject: "Firewall",
    message: `a firewall of your provider must let ssh${isInner ? "" : ` and ${ports}`} in`,
  };
  if (!ufw || isInner || target.flags.domain !== undefined) return [hint];
  return [
    {
      level: "warning",
      subject: "Firewall",
      message: `ufw is active, and does not apply to ports that Docker opens: ${ports} will be open to everybody`,
      fix: "Use --bind 127.0.0.1 with a proxy of your own, a --domain, or a firewall of your provider",
    },
  ];
}
