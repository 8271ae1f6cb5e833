import {
  ownVariable,
  type PipelineLogin,
  type PipelineRequest,
  setSecret,
} from "../../../deploy/ci/pipeline.ts";
import { hostsOf, type ServerFlags } from "./flags.ts";

const KEY = "SVC_SSH_KEY";
const KNOWN = "SVC_SSH_KNOWN_HOSTS";

/** How a job signs in to a server: with an ssh key of its own, to the machine whose key is known. */
export function pipelineLogin(request: PipelineRequest<ServerFlags>): PipelineLogin {
  const { provider, flags, name, environment } = request;
  const hosts = hostsOf(flags);
  const parts = hosts.map(partsOf);
  const toPort = (port: string | undefined) => (port === undefined ? "" : `-p ${port} `);
  const file = `${name}-${environment.replace(/-$/, "")}-pipeline`;
  const [key, known] = [ownVariable(request, KEY), ownVariable(request, KNOWN)];
  const script = [
    "mkdir -p -m 700 ~/.ssh",
    `printf '%s\\n' "$${key}" > ~/.ssh/id_ed25519`,
    "chmod 600 ~/.ssh/id_ed25519",
    `printf '%s\\n' "$${known}" > ~/.ssh/known_hosts`,
  ];
  const secrets = { [key]: `\${{ secrets.${key} }}`, [known]: `\${{ secrets.${known} }}` };
  return {
    ...(provider === "github"
      ? { steps: [{ name: "Sign in", run: script.join("\n"), env: secrets }] }
      : { script: ["apk add --no-cache openssh-client", ...script] }),
    federated: false,
    needsDocker: true,
    setup: [
      `# A key of the pipeline's own, for ${hosts.join(", ")}.`,
      `ssh-keygen -t ed25519 -N '' -C ${file} -f ./${file}`,
      ...parts.map(
        ({ user, machine, port }) => `ssh-copy-id -i ./${file}.pub ${toPort(port)}${user}${machine}`,
      ),
      setSecret(request, key, `./${file}`),
      `rm ./${file}`,
      "# The key of the machine: compare its fingerprint with that which the machine itself shows (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub).",
      ...parts.map(
        ({ machine, port }, index) =>
          `ssh-keyscan -t ed25519 ${toPort(port)}${machine} ${index === 0 ? ">" : ">>"} ./${file}.known`,
      ),
      `ssh-keygen -lf ./${file}.known`,
      setSecret(request, known, `./${file}.known`),
    ],
    notes: [
      "ssh has no federated login: the key is a secret of the repository. Everyone who may use it may do what its user may do with Docker on that machine",
      ...hosts
        .filter((host) => !/[.:@/]/.test(host))
        .map(
          (host) =>
            `"${host}" may be a name of your own ssh configuration, which a pipeline does not have: write user@machine into deploy.yaml`,
        ),
    ],
  };
}

function partsOf(host: string): { user: string; machine: string; port: string | undefined } {
  const [, user = "", machine = host, port] =
    /^(?:ssh:\/\/)?([^@/]+@)?([^:/]+)(?::(\d+))?\/?$/.exec(host) ?? [];
  return { user, machine, port };
}
