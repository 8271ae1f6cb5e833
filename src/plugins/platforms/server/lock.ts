import { DeployError } from "../../../deploy/errors.ts";
import { hasEndedHere, lockedBy } from "../../../deploy/lock.ts";
import type { LockHolder, LockRequest } from "../../../deploy/platform.ts";
import { type Context, EMPTY, LABEL, namesOf, onServer, WITH_EMPTY } from "./context.ts";
import { dockerError } from "./docker-error.ts";

const HOLDER = `${LABEL}.lock`;
const SESSION = `${LABEL}.session`;
/** Milliseconds between two signs of life; the server gives the lock back after a minute without. */
const BEAT = 15_000;
/** Milliseconds in which the server notices that a killed command of this machine has ended. */
const NOTICED = 30_000;

/**
 * A container that never starts: its name can be taken only once, for all users of the server. The script that created
 * it removes it when its input ends, or has been silent for a minute: that is, when this process has died or lost the
 * connection. A lock whose script no longer runs, because the server restarted, is replaced.
 */
const SCRIPT = `${WITH_EMPTY}
  boot=$(cat /proc/sys/kernel/random/boot_id); self="$boot $$ $(cut -d ' ' -f 22 /proc/$$/stat)"
  for attempt in 1 2 3 4 5; do
    made=$(docker create --name "$1" --label "$2" --label "$3=$self" ${EMPTY} lock 2>&1) && { mine=$(docker inspect --format '{{.Id}}' "$1"); break; }
    case $made in *"already in use"*) ;; *) echo "$made" >&2; exit 1 ;; esac
    found=$(docker inspect --format "$4" "$1" 2>/dev/null) || continue
    set -- "$1" "$2" "$3" "$4" "$5" $found
    if [ "$5" = no ] && [ "$7" = "$boot" ] && [ "$(cut -d ' ' -f 22 "/proc/$8/stat" 2>/dev/null)" = "$9" ]; then
      docker inspect --format "held {{index .Config.Labels \\"\${2%%=*}\\"}}" "$6" 2>/dev/null && exit 0
      continue # It was released in between.
    fi
    docker rm --force "$6" >/dev/null 2>&1
  done
  [ -n "$mine" ] || { echo "$made" >&2; exit 1; }
  trap 'docker rm --force "$mine" >/dev/null 2>&1' EXIT
  trap 'exit 0' HUP INT TERM PIPE
  echo taken
  while [ -n "$(timeout 60 head -c 1)" ]; do :; done`;

export interface ServerLock {
  /** Rejects if the connection that holds the lock has ended, so that nothing more is changed. */
  check(): void;
  take(holder: LockHolder, request: LockRequest): Promise<() => Promise<void>>;
  /** Who holds it, for people: one whose connection was lost up to a minute ago too. */
  holder(): Promise<LockHolder | undefined>;
}

/** The lock of a service on its server, the same for all users, machines and checkouts. */
export function serverLock(context: Context): ServerLock {
  const { ssh, target, tools } = context;
  let state: "free" | "held" | "lost" = "free";

  async function take(
    holder: LockHolder,
    breakLock: boolean,
    until = tools.now().getTime() + NOTICED,
  ): Promise<() => Promise<void>> {
    let end = () => {};
    const released = new Promise<void>((resolve) => {
      end = resolve;
    });
    let answer: (line: string | undefined) => void = () => {};
    const answered = new Promise<string | undefined>((resolve) => {
      answer = resolve;
    });
    const format = `{{.Id}} {{index .Config.Labels "${SESSION}"}}`;
    const values = [
      namesOf(target.serviceName).lock,
      `${HOLDER}=${JSON.stringify(holder)}`,
      SESSION,
      format,
      breakLock ? "yes" : "no",
    ];
    const running = ssh.script(SCRIPT, values, {
      input: beats(released),
      onLine: (line) => {
        if (/^(taken|held )/.test(line)) answer(line);
      },
    });
    const ending = running.then(
      () => answer(undefined),
      () => answer(undefined),
    );
    const line = await answered;
    if (line === undefined) {
      const result = await running;
      throw dockerError("The service could not be locked on the server", result);
    }
    if (line !== "taken") {
      const held = JSON.parse(line.slice("held ".length)) as LockHolder;
      if (!hasEndedHere(held) || tools.now().getTime() > until) throw lockedBy(held, tools.now());
      await tools.sleep(300);
      return take(holder, breakLock, until);
    }
    state = "held";
    void ending.then(() => {
      if (state === "held") state = "lost";
    });
    return async () => {
      state = "free";
      end();
      await ending;
    };
  }

  return {
    take: (holder, { breakLock }) => take(holder, breakLock),
    async holder() {
      const script = `docker inspect --format '{{index .Config.Labels "${HOLDER}"}}' "$1" 2>/dev/null || true`;
      const found = await onServer(context, "The lock could not be read", script, [
        namesOf(target.serviceName).lock,
      ]);
      return found === "" ? undefined : (JSON.parse(found) as LockHolder);
    },
    check() {
      if (state === "lost")
        throw new DeployError("unreachable", `The connection to ${ssh.host} was lost, and with it the lock`, {
          fix: "Run the same command again: it continues where this one stopped",
        });
    },
  };
}

/** Input of a script on the server that lives as long as this run: a byte now and then, until it is over. */
export async function* beats(released: Promise<void>): AsyncGenerator<Uint8Array> {
  for (let isHeld = true; isHeld; ) {
    yield Buffer.from(".");
    let timer: NodeJS.Timeout | undefined;
    const pause = new Promise<boolean>((resolve) => {
      timer = setTimeout(resolve, BEAT, true);
      timer.unref();
    });
    isHeld = await Promise.race([pause, released.then(() => false)]);
    clearTimeout(timer);
  }
}
