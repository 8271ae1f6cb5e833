import type { DeployTarget } from "../../../deploy/platform.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { dockerError } from "./docker-error.ts";
import type { ServerFlags } from "./flags.ts";
import type { ScriptOptions, Ssh } from "./ssh.ts";

/** Prefix of the labels of everything that belongs to a service on a server. */
export const LABEL = "agent-control-service";
/** Label with the service's name. */
export const SERVICE = `${LABEL}.service`;
/** Label with the record that a container was made from. */
export const RECORD = `${LABEL}.record`;
/** An image without content: containers of it hold a lock, or a volume while it is filled; they never start. */
export const EMPTY = `${LABEL}/empty`;

/** End of the name of a container that has not been healthy yet. */
export const CANDIDATE = ".new";

/** What every part of a session uses. */
export interface Context {
  readonly target: DeployTarget<ServerFlags>;
  readonly tools: DeployTools;
  readonly ssh: Ssh;
}

/** Runs a script on the server and resolves with its trimmed output; rejects with `what` and the cause if it fails. */
export async function onServer(
  { ssh }: Context,
  what: string,
  script: string,
  values: readonly string[] = [],
  options: ScriptOptions = {},
): Promise<string> {
  const result = await ssh.script(script, values, options);
  if (result.code !== 0) throw dockerError(what, result);
  return result.stdout.trim();
}

/** Names of what belongs to a service; a dot cannot occur in a service's name. */
export function namesOf(serviceName: string) {
  return {
    data: `${serviceName}.data`,
    network: `${serviceName}.net`,
    lock: `${serviceName}.lock`,
    /** The database beside the service, its volume, and its name in the network. */
    database: `${serviceName}.postgres`,
    /** The container of the release command. */
    command: `${serviceName}.command`,
    /** The container of a restore. */
    restore: `${serviceName}.restore`,
    container: (revision: string) => `${serviceName}.${revision}`,
    /** Name of a container until it has been healthy. */
    candidate: (revision: string) => `${serviceName}.${revision}${CANDIDATE}`,
    repository: `${LABEL}/${serviceName}`,
  };
}

/** Creates the image without content where it is missing; part of scripts. */
export const WITH_EMPTY = `docker image inspect ${EMPTY} >/dev/null 2>&1 || head -c 1024 /dev/zero | docker import - ${EMPTY} >/dev/null || exit 1`;

/**
 * Shell functions of scripts that start and stop containers. One that serves has the restart policy `always`: an engine that
 * comes back after a crash counts the containers that it stops then as stopped by hand, and would not start them again
 * with `unless-stopped` (seen with 20.10). One that was stopped gets that policy back, and stays stopped. Where the policy
 * cannot be set, on a full disk, the container serves with the earlier one. The engine refuses to set it in the moment
 * between the end of a container's process and its restart, which those that crash again and again meet.
 */
export const START_AND_STOP = `policy() {
      for try in 1 2 3 4 5; do
        said=$(docker update --restart "$@" 2>&1 >/dev/null) && return
        case $said in *"no space left"*|*"quota exceeded"*) break ;; esac
        sleep 1
      done
      echo "$said" >&2; return 1
    }
    start() { docker start "$1" >/dev/null || return 1; policy always "$1" 2>/dev/null || :; }
    stop() { policy unless-stopped "$@" && docker stop "$@" >/dev/null; }
`;

/**
 * A shell function of scripts that list things and then read them: it runs a command that reads, and takes it as no failure
 * that some of them have been removed in between, by another command or the engine.
 */
export const THOSE_LEFT = `left() {
      { said=$("$@" 2>&1 >&3); } 3>&1 && return
      printf '%s\\n' "$said" | grep -iv -e 'no such object' -e 'no such image' -e 'no such container' >&2 && return 1
      return 0
    }
`;
