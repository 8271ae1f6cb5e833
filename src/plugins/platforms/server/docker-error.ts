import { DeployError } from "../../../deploy/errors.ts";
import type { ExecResult } from "../../../deploy/tools.ts";

interface Known {
  readonly pattern: RegExp;
  readonly message: string;
  readonly fix: string;
}

/** What Docker and the shell say on a server that is not ready, and what to do. */
const KNOWN: readonly Known[] = [
  {
    pattern: /docker: (command )?not found|docker: No such file/,
    message: "Docker is not installed on the server",
    fix: "Run svc deploy setup; or, on the server: sudo apt-get install docker.io",
  },
  {
    pattern: /permission denied.*docker|Got permission denied/is,
    message: "The user on the server may not use Docker",
    fix: "Add the user to the group, on the server: sudo usermod -aG docker $USER; or log in as root",
  },
  {
    pattern: /Cannot connect to the Docker daemon|Is the docker daemon running/,
    message: "Docker does not run on the server",
    fix: "On the server: sudo systemctl enable --now docker",
  },
  {
    pattern: /no space left on device|disk quota exceeded/i,
    message: "The disk of the server is full",
    fix: "Free space on the server (docker system df shows what Docker uses), and run the command again",
  },
  {
    pattern: /port is already allocated|address already in use/,
    message: "The port is already used on the server",
    fix: "Choose another with --port",
  },
  {
    pattern: /unauthorized|access (to the resource is )?denied|no basic auth credentials/i,
    message: "The registry refused the server's login",
    fix: "Log in there, as the user that svc uses: docker login REGISTRY",
  },
  {
    pattern: /manifest unknown|manifest for .* not found/i,
    message: "The registry does not have it",
    fix: "Push it first, and name it by the digest that the push printed",
  },
  {
    pattern: /exec format error|does not match the detected host platform/,
    message: "The image is built for another processor than the server has",
    fix: "Use a base image that exists for the server's processor",
  },
];

/** A command that failed on the server, in the words of Docker, with what to do where that is known. */
export function dockerError(what: string, { code, stdout, stderr }: ExecResult): DeployError {
  const lines = `${stdout}\n${stderr}`.split(/\r?\n/).filter((line) => line.trim() !== "");
  const known = KNOWN.find(({ pattern }) => pattern.test(`${stdout}\n${stderr}`));
  const log = lines.slice(-20);
  const last = stderr.trim().split(/\r?\n/).at(-1) || `exit code ${code}`;
  if (known === undefined) return new DeployError("failed", what, { detail: last, log });
  return new DeployError("failed", `${what}: ${known.message}`, { detail: last, fix: known.fix });
}
