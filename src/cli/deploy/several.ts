import { type DeployErrorCode, isDeployError } from "../../deploy/errors.ts";
import { failedIn, lockAll } from "../../deploy/places.ts";
import { failureResult, tellFailure } from "./failure.ts";
import { hinted } from "./hints.ts";
import type { PlatformRun } from "./platform-run.ts";
import type { Shell } from "./session.ts";

type Run = (one: PlatformRun) => Promise<number>;

/** Runs a command in the places of a deployment; resolves with its exit code. */
export type Several = (runs: readonly PlatformRun[], run: Run) => Promise<number>;

/** One place after the other, also after a failure; the highest exit code counts. */
export const inEach: Several = async (runs, run) => {
  let code = 0;
  for (const one of runs) code = Math.max(code, await tellingFailure(one, run));
  return code;
};

/** Runs it in one place: a failure there is printed, and keeps no other place from its turn. */
async function tellingFailure(one: PlatformRun, run: Run): Promise<number> {
  try {
    return await run(one);
  } catch (error) {
    if (!isDeployError(error) || one.shell.signal.aborted) throw error;
    one.shell.progress.clear();
    const failure = hinted(error, one.shell.hint);
    if (one.shell.json) one.shell.document(failureResult(failure));
    else tellFailure(one.shell.context, failure, undefined);
    return error.exitCode;
  }
}

/** All places are locked, then changed one after the other; the first failure ends it, and says what serves where. */
export const inTurn: Several = async (runs, run) => {
  const all = runs.map(({ deployment }) => deployment);
  await lockAll(all);
  try {
    let code = 0;
    for (const one of runs) code = Math.max(code, await run(one));
    return code;
  } catch (error) {
    throw isDeployError(error) ? await failedIn(all, error) : error;
  }
};

/** All places at the same time; each line begins with the name of its place. */
export const together: Several = async (runs, run) => {
  const width = Math.max(...runs.map(({ deployment }) => deployment.place?.length ?? 0));
  const codes = await Promise.all(
    runs.map(({ shell, ...rest }) => {
      const name = shell.paint("dim", `${rest.deployment.place?.padEnd(width)} |`);
      const own = { ...shell, print: (line: string) => shell.print(`${name} ${line}`) };
      return tellingFailure({ ...rest, shell: own }, run);
    }),
  );
  return Math.max(...codes);
};

/** The first place, where all have the same to say. */
export const inFirst: Several = ([first], run) => run(first!);

/**
 * One place after the other until one does it, where all have the same: one in which nothing serves, or that cannot be reached,
 * is passed over. Where none does it, the failure is that of the first.
 */
export const inAny: Several = async (runs, run) => {
  let first: unknown;
  for (const one of runs) {
    try {
      return await run(one);
    } catch (error) {
      if (one.shell.signal.aborted) throw error;
      first ??= error;
      const isAbsent = isDeployError(error) && ABSENT.includes(error.code);
      if (!isAbsent || one === runs.at(-1)) throw first;
      one.shell.progress.clear();
      if (!one.shell.json) one.shell.context.note(`${one.deployment.place}: ${error.message}`);
    }
  }
  throw first;
};

/** Failures of a place in which nothing serves, or that cannot be reached. */
const ABSENT: readonly DeployErrorCode[] = ["not_deployed", "unreachable"];

/** Runs a command in several places: with a heading for each, and one document of all. */
export async function inPlaces(runs: readonly PlatformRun[], several: Several, run: Run): Promise<number> {
  const documents: Record<string, unknown> = {};
  const own = runs.map((one) => {
    const { place = "" } = one.deployment;
    const document = (value: unknown) => {
      documents[place] = value;
    };
    return { ...one, shell: { ...one.shell, document } };
  });
  const code = await several(own, (one) => {
    if (several !== together && several !== inFirst && several !== inAny)
      heading(one.shell, one.deployment.place);
    return run(one);
  });
  const { shell } = runs[0]!;
  if (shell.json) shell.document({ places: documents });
  return code;
}

/** Not a part of the output: that of a command in a container is passed on as it is. */
function heading({ json, progress, context, paint }: Shell, place: string | undefined): void {
  progress.clear();
  if (!json) context.note(paint("bold", `== ${place}`));
}
