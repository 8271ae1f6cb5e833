import { readdirSync, readFileSync } from "node:fs";

/** The clock of `/proc`, ticks a second: the same on all Linux systems. */
const TICKS = 100;

/** Seconds of processor time that processes have used so far, and those that they have started. */
export function processorTime(pid: number): number {
  const all = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const times = timesOf(name);
      return times ? [{ pid: Number(name), ...times }] : [];
    });
  const sum = (id: number): number =>
    all
      .filter(({ parent }) => parent === id)
      .reduce((total, child) => total + sum(child.pid), all.find((one) => one.pid === id)?.seconds ?? 0);
  return sum(pid);
}

function timesOf(pid: string): { parent: number; seconds: number } | undefined {
  try {
    // The name of the program, in parentheses, may have spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)!.split(" ");
    const [parent, user, system] = [1, 11, 12].map((at) => Number(fields[at]));
    return { parent: parent!, seconds: (user! + system!) / TICKS };
  } catch {
    return undefined;
  }
}
