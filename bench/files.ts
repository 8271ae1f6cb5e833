import { cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { record, replay } from "./replay.ts";
import type { BenchRow } from "./row.ts";
import { median } from "./runs/load.ts";

const STEPS = Number(process.env.SVC_BENCH_FILES ?? 1000);
const SIZE = 1_000_000;
const TURNS = 5;
/** Where a data folder has the contents of files. */
const CONTENTS = "svc-files";
/** How much slower a replay may be whose results are files. */
const MOST = 1.5;

/** Milliseconds until a service is ready, and until its job is where it was. */
type Started = Awaited<ReturnType<typeof replay>>;

/** How fast a job whose steps have made files of 1 MB resumes after a kill, beside one with small results. */
export async function run(): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "bench-files-"));
  try {
    const places = { small: join(folder, "small"), files: join(folder, "files") };
    await record(places.small, { steps: STEPS });
    await record(places.files, { steps: STEPS, size: SIZE });
    const took: Record<keyof typeof places, Started[]> = { small: [], files: [] };
    for (let turn = 0; turn < TURNS; turn++) {
      for (const name of ["small", "files"] as const) {
        const copy = join(folder, `${name}-${turn}`);
        await copyFolder(places[name], copy);
        took[name].push(await replay(copy));
      }
    }
    const toRow = (name: string, read: (one: Started) => number): BenchRow => {
      const [small, files] = [took.small, took.files].map((all) => median(all.map(read)));
      const ratio = files! / small!;
      return {
        ...{ name: `${name} of ${STEPS} files of 1 MB`, value: files!, unit: "ms" },
        ...{ baseline: { name: "of as many small results", value: small! }, ratio },
        ...{ target: `<= ${MOST}`, ok: ratio <= MOST },
      };
    };
    return [
      toRow("start with a job", ({ ready }) => ready),
      toRow("replay of a job", ({ replay, ready }) => replay - ready),
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A copy of a data folder that has the contents of files where they are. */
async function copyFolder(from: string, to: string): Promise<void> {
  const filter = (path: string) => !path.endsWith(".sock") && basename(path) !== CONTENTS;
  await cp(from, to, { recursive: true, filter });
  await symlink(join(from, CONTENTS), join(to, CONTENTS)).catch(() => {});
}
