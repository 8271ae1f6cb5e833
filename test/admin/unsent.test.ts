import { defineChat } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { greeter } from "../_setup.ts";
import { DESKTOP, launch, PHONE, signIn, visit } from "./_browser.ts";
import { openRoad, type Road } from "./_road.ts";
import { seedJob } from "./_seed.ts";

const chromium = requirement("chromium");
let browser: Browser;

beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

const baker = defineChat({ name: "Baker", version: "1.0.0", reply: ({ message }) => `heard ${message}` });
/** Ends the connection of a page that has one, so that it knows. */
async function lose(page: Page, road: Road): Promise<void> {
  const signal = (state: string) =>
    page.locator(`#signal[data-state=${state}]`).waitFor({ state: "attached" });
  await signal("live");
  road.become("dead");
  await signal("lost");
}

const UNSENT =
  /^The service does not respond\. Check that it is running\. Nothing was sent, and what you typed is kept/;

chromium.it(
  "a message of a chat that the service cannot get is kept, and sent once by the next press",
  async () => {
    await using server = await testServer({ agents: [baker] });
    await using road = await openRoad(server.url);
    const { page, context } = await visit(browser, road.url, PHONE);
    await signIn(page, road.url, server.key);
    await page.goto(`${road.url}/admin/agents/baker/chat`);
    const message = page.getByLabel("Message");
    const send = page.getByRole("button", { name: "Send" });

    await lose(page, road);
    await message.fill("Two loaves");
    await send.click();
    await page.locator(".toast", { hasText: UNSENT }).waitFor();
    // The page has a stream, so it says that the service is gone also before something is sent.
    await page.locator("#blind", { hasText: "No connection to the service" }).waitFor();
    expect(await message.inputValue()).toBe("Two loaves");

    road.become("open");
    await page.locator("#blind").waitFor({ state: "hidden" });
    await send.click();
    await page.locator(".answer", { hasText: "heard Two loaves" }).waitFor();
    await lose(page, road);
    await message.fill("And a roll");
    await send.click();
    await page.locator(".toast", { hasText: UNSENT }).waitFor();
    road.become("open");
    await send.click();
    await page.locator(".answer", { hasText: "heard And a roll" }).waitFor();
    const { total } = await server.service.get(JOBS).list();
    expect([total, await page.locator(".said").count()]).toEqual([1, 2]);
    await context.close();
  },
);

chromium.it("a confirmation without a connection stays, and is sent by the next press", async () => {
  const path = "/admin/jobs/gone/delete";
  await using server = await testServer({ agents: [greeter] });
  await seedJob(server.service, { id: "gone", status: "completed" });
  await using road = await openRoad(server.url);
  const { page, context } = await visit(browser, road.url, DESKTOP);
  await signIn(page, road.url, server.key);
  await page.goto(road.url + path);

  road.become("dead");
  await page.getByRole("button", { name: "Delete the job" }).click();
  await page.locator(".toast", { hasText: UNSENT }).waitFor();
  expect(page.url()).toBe(road.url + path);

  road.become("open");
  await page.getByRole("button", { name: "Delete the job" }).click();
  await page.locator(".note.good").waitFor();
  await context.close();
});

chromium.it("a form says which of its buttons was pressed, though it is sent later", async () => {
  await using server = await testServer({ agents: [greeter] });
  await seedJob(server.service, { id: "again", status: "failed", fields: { name: "Ada" } });
  await using road = await openRoad(server.url);
  const { page, context } = await visit(browser, road.url, DESKTOP);
  await signIn(page, road.url, server.key);
  await page.goto(`${road.url}/admin/jobs/again/retry`);
  const sent: (string | null)[] = [];
  page.on("request", (request) => request.method() === "POST" && sent.push(request.postData()));

  await page.getByRole("button", { name: "From the start" }).click();
  await page.locator(".note.good").waitFor();
  expect(sent).toEqual(["from=start"]);
  await context.close();
});
