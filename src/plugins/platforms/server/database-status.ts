import type { DatabaseStatus } from "../../../deploy/status.ts";
import { type Context, namesOf, onServer } from "./context.ts";
import { ROLE } from "./database.ts";
import type { Settings } from "./record.ts";

/** The state of the database beside a service; undefined where it has none. */
export async function databaseStatus(
  context: Context,
  live: Settings | undefined,
): Promise<DatabaseStatus | undefined> {
  if (live?.postgres === undefined) return undefined;
  const name = namesOf(context.target.serviceName).database;
  const script = `docker volume ls --quiet --filter "name=^$1\\$" || exit 1
    echo; ids=$(docker ps --all --quiet --filter "name=^$1\\$") || exit 1
    [ -n "$ids" ] || { echo absent; exit 0; }
    docker inspect --format '{{.State.Status}} {{.RestartCount}}' $ids || exit 1
    docker exec "$1" pg_isready --quiet --host=127.0.0.1 --username=${ROLE} --dbname=${ROLE} >/dev/null 2>&1 && echo ready || :`;
  const text = await onServer(context, "The database could not be read", script, [name]);
  const lines = text.split("\n").filter(Boolean);
  const volume = lines[0] === name ? name : null;
  const [state = "", ready] = lines.slice(volume === null ? 0 : 1);
  const [word = "", restarts = "0"] = state.split(" ");
  const status = [
    word,
    ...(word === "running" && ready === undefined ? ["accepts no connections"] : []),
    ...(restarts === "0" ? [] : [`restarted ${restarts === "1" ? "once" : `${restarts} times`}`]),
  ].join(", ");
  return { image: live.postgres, container: word === "absent" ? null : name, volume, status };
}
