import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { findChromium } from "../test/_require.ts";
import { fillLargeJob } from "./desk/large-job.ts";
import type { BenchRow } from "./row.ts";

const ROUNDS = Number(process.env.SVC_BENCH_ROUNDS ?? 25);
const WINDOW = Number(process.env.SVC_BENCH_LARGE_WINDOW ?? 25_000);
/** Milliseconds. */
const FIRST_BYTE = 200;
const LONGEST_TASK = 100;

/** The page of a job with 1,000 cases that runs: when its first byte comes, and what an open page costs its browser. */
export async function run(): Promise<BenchRow[]> {
  const dataDir = mkdtempSync(join(tmpdir(), "svc-large-"));
  try {
    await using job = await fillLargeJob(dataDir);
    const first = await firstByte(`${job.url}/admin/jobs/${job.id}`, job.headers);
    const executablePath = findChromium();
    const row = { name: "first byte of its page, median", value: first, unit: "ms" };
    const rows = [{ ...row, target: `<= ${FIRST_BYTE}`, ok: first <= FIRST_BYTE }];
    return executablePath ? [...rows, ...(await watch(job, executablePath))] : rows;
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}

async function firstByte(url: string, headers: Record<string, string>): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const from = performance.now();
    const response = await fetch(url, { headers: { ...headers, accept: "text/html" } });
    times.push(performance.now() - from);
    await response.text();
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)]!;
}

const NOTE = `window.tasks = []; new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) window.tasks.push(duration);
}).observe({ type: "longtask", buffered: true });`;

async function watch(
  { url, id, headers }: Awaited<ReturnType<typeof fillLargeJob>>,
  executablePath: string,
): Promise<BenchRow[]> {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  try {
    const context = await browser.newContext({
      viewport: { width: 1440, height: 900 },
      extraHTTPHeaders: headers,
    });
    const page = await context.newPage();
    await page.addInitScript(NOTE);
    let refreshes = 0;
    page.on("response", (response) => {
      if (response.url().includes(`/admin/api/jobs/${id}`)) refreshes++;
    });
    await page.goto(`${url}/admin/jobs/${id}`);
    await page.waitForTimeout(WINDOW);
    const tasks = await page.evaluate<number[]>("window.tasks");
    const longest = Math.max(0, ...tasks);
    return [
      {
        ...{ name: "longest task of an open page", value: longest, unit: "ms" },
        ...{ target: `<= ${LONGEST_TASK}`, ok: longest <= LONGEST_TASK },
      },
      { name: `tasks above 50 ms in ${WINDOW / 1000} s`, value: tasks.length, unit: "" },
      { name: "refreshes in that time", value: refreshes, unit: "" },
    ];
  } finally {
    await browser.close();
  }
}
