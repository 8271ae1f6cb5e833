import { DeployError, type DeployErrorCode } from "../../../deploy/errors.ts";

interface Known {
  readonly pattern: RegExp;
  readonly code: DeployErrorCode;
  message(host: string): string;
  fix(host: string): string;
}

/** What ssh says, and what that means. The first that matches counts. */
const KNOWN: readonly Known[] = [
  {
    pattern: /REMOTE HOST IDENTIFICATION HAS CHANGED/,
    code: "preflight",
    message: (host) => `The host key of ${host} has changed: this may be another machine`,
    fix: (host) =>
      `If the server was reinstalled, remove its old key with ssh-keygen -R ${machine(host)}. If not, somebody may be intercepting the connection`,
  },
  {
    pattern: /Host key verification failed|authenticity of host/,
    code: "preflight",
    message: (host) => `The host key of ${host} is unknown on this machine`,
    fix: (host) => `Connect once with ssh ${host} and compare the key, or add --accept-new-host`,
  },
  {
    pattern: /Permission denied|Too many authentication failures|no mutual signature/,
    code: "login_expired",
    message: (host) => `${host} denied the login`,
    fix: (host) =>
      `Check that ssh -o BatchMode=yes ${host} true works: the key must be in the server's authorized_keys, and loaded into your agent if it has a passphrase`,
  },
  {
    pattern: /Could not resolve hostname/,
    code: "unreachable",
    message: (host) => `The name ${machine(host)} could not be resolved`,
    fix: () => "Check the spelling of --host, and the network",
  },
  {
    pattern:
      /Connection refused|timed out|No route to host|Network is unreachable|Connection (reset|closed)|Broken pipe/,
    code: "unreachable",
    message: (host) => `${host} cannot be reached over ssh`,
    fix: () => "Check that the server is running, that its firewall lets ssh in, and that the port is right",
  },
];

/** A failed connection as an error that says what to do. */
export function sshError(host: string, stderr: string): DeployError {
  const lines = stderr.split(/\r?\n/).filter((line) => line.trim() !== "" && !/^@+$/.test(line.trim()));
  const detail = lines.at(-1);
  const known = KNOWN.find(({ pattern }) => pattern.test(stderr));
  if (known === undefined)
    return new DeployError("unreachable", `The connection to ${host} failed`, {
      detail,
      log: lines.slice(-10),
      fix: `Check that ssh ${host} works`,
    });
  return new DeployError(known.code, known.message(host), { detail, fix: known.fix(host) });
}

/** The machine of a destination, without its user and port. */
function machine(host: string): string {
  return host
    .replace(/^ssh:\/\//, "")
    .replace(/^[^@]*@/, "")
    .replace(/:\d+$/, "");
}
