import { setTimeout as delay } from "node:timers/promises";
import type { AgentDefinition } from "agent-control-service";
import { STORE } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import type { Browser } from "playwright-core";
import { DESKTOP, signIn, visit } from "./_browser.ts";
import { seedJob } from "./_seed.ts";

const SECONDS = Number(process.env.SVC_IDLE_SECONDS ?? 3);

/** A dashboard that stays open, on a service of its own, while other tests run. */
export interface IdleTab extends AsyncDisposable {
  /** What the tab caused since it became idle, after `SVC_IDLE_SECONDS`. */
  settled(): Promise<{
    readonly reads: number;
    readonly requests: readonly string[];
    readonly live: boolean;
  }>;
}

export async function openIdleTab(browser: Browser, agents: readonly AgentDefinition[]): Promise<IdleTab> {
  const server = await testServer({ agents });
  await seedJob(server.service, { id: "a", status: "completed" });
  const { context, page } = await visit(browser, server.url, DESKTOP);
  await signIn(page, server.url, server.key);
  const live = page.locator("#signal[data-state=live]");
  await live.waitFor({ state: "attached" });
  const reads = async () => (await server.service.get(STORE).stats()).reads;
  let before: number;
  do {
    before = await reads();
    await delay(1000);
  } while ((await reads()) !== before);

  const requests: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  const still = delay(SECONDS * 1000);
  return {
    async settled() {
      await still;
      return { reads: (await reads()) - before, requests, live: (await live.count()) === 1 };
    },
    async [Symbol.asyncDispose]() {
      await context.close();
      await server[Symbol.asyncDispose]();
    },
  };
}
