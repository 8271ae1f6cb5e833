import { defineAgent } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, it, vi } from "vitest";

const payer = defineAgent({
  name: "Payer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "count", field_type: "IntegerField", default: 3 }],
      async run({ job, fields }) {
        const asks = Array.from({ length: Number(fields.count) }, async (_, at) => {
          const item = await job.openCase({ id: `${job.id}-${at}`, name: `Invoice ${at}` });
          await item.step("read", () => ({ total: 40 + at }));
          const { approved } = await item.ask("pay", {
            question: at === 2 ? "Pay the invoice later?" : "Pay the invoice <b>now</b>?",
            fields: [{ name: "approved", field_type: "BooleanField", required: true }],
            ...{ deadline: "2h", onTimeout: "default", default: { approved: false } },
          });
          await item.close({ approved });
        });
        await Promise.all(asks);
        const other = await job.openCase({ id: `${job.id}-other`, name: "Other" });
        await other.ask({ question: "Why?", fields: [{ name: "reason", required: true }] });
        return { message: "done" };
      },
    },
  },
});

/** Asks the same so often, with a form that may stay empty. */
const collector = defineAgent({
  name: "Collector",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "count", field_type: "IntegerField", default: 3 }],
      async run({ job, fields }) {
        const asks = Array.from({ length: Number(fields.count) }, async (_, at) => {
          const item = await job.openCase({ id: `${job.id}-${at}`, name: `Invoice ${at}` });
          const { why } = await item.ask("why", { question: "Why?", fields: [{ name: "why" }] });
          await item.close({ why });
        });
        await Promise.all(asks);
      },
    },
  },
});

let server: TestServer;
beforeAll(async () => {
  server = await testServer({ agents: [payer, collector] });
  await server.request("/agents/payer/jobs", {
    json: { job_context: { job_id: "p" }, job_fields: { count: 3 } },
  });
  await vi.waitUntil(async () => (await open()).length === 3, { timeout: 60_000 });
});
afterAll(() => server[Symbol.asyncDispose]());

async function open(): Promise<string[]> {
  const { items } = (await (await server.request("/admin/api/inbox")).json()) as {
    items: { case_id: string }[];
  };
  return items.map(({ case_id }) => case_id).sort();
}

const page = async (path: string, cookie = "") =>
  (await server.request(`/admin/${path}`, { headers: { accept: "text/html", cookie } })).text();

function post(path: string, form: [string, string][]) {
  return server.request(`/admin/${path}`, {
    method: "POST",
    body: new URLSearchParams(form).toString(),
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      origin: server.url,
      accept: "text/html",
    },
    redirect: "manual",
  });
}

it("a question has beside it what its case found, the time that is left, and its default in words", async () => {
  const text = await page("inbox");

  expect(text).toMatch(/class="due soon"[^>]*>due in (?:2 h|1 h \d+ min)</);
  expect(text).toMatch(
    /If nobody answers <time[^>]*>in the next (?:2 h|1 h \d+ min)<\/time>, the default is used: Approved: No\./,
  );
  expect(text).toMatch(/What is known[\s\S]*read[\s\S]*total[\s\S]*4[012]/);
  expect(text.match(/Answer all like this/g)).toHaveLength(1);
});

it("an answer that is refused in the inbox leaves what can be done there: the next question, and equal ones", async () => {
  const [first] = await open();
  const text = await page(`inbox?question=${first}`);
  const question_id = /name="question_id" value="([^"]*)"/.exec(text)![1]!;
  const action = new RegExp(`action="/admin/(cases/${first}/[^"]*)"`).exec(text)![1]!;

  const refused = await post(action, [["question_id", question_id]]);

  const shown = await refused.text();
  expect(refused.status).toBe(422);
  for (const one of ["Send, open the next", "Answer all like this", "aria-invalid"])
    expect([one, shown.includes(one)]).toEqual([one, true]);
});

it("equal questions are answered with one form: those that are ticked, and only as long as they ask the same", async () => {
  const [first] = await open();
  const path = `cases/${first}/alike`;
  const form = await page(path);
  // The inbox led here.
  expect(form.match(/href="([^"]+)" title="[^"]*" aria-current="page"/)?.[1]).toBe("/admin/inbox");
  const valuesOf = (pattern: RegExp) => [...form.matchAll(pattern)].map(([, value]) => value!);
  const picks = valuesOf(/name="pick" value="([^"]+)"/g);

  expect(form).toContain("Answer 3 questions together");
  expect(form.includes("<b>now</b>")).toBe(false);
  expect(picks).toHaveLength(3);
  // The one with another text is not ticked, and says why.
  expect(valuesOf(/name="pick" value="([^"]+)" checked/g)).toEqual(
    picks.filter((pick) => !pick.startsWith("p-2 ")),
  );
  expect(form.match(/asks something else/g)).toHaveLength(1);
  const none = await post(path, [["f.approved", "true"]]);
  const incomplete = await post(
    path,
    picks.map((pick) => ["pick", pick]),
  );
  expect([none.status, incomplete.status]).toEqual([422, 422]);
  expect(await none.text()).toContain("No question is selected.");
  expect(await open()).toHaveLength(3);

  const [, second, third] = picks;
  const answered = await post(path, [
    ["pick", second!],
    ["pick", `${third!.split(" ")[0]} another-question`],
    ["f.approved", "true"],
    ["message", "fine"],
  ]);

  expect([answered.status, answered.headers.get("location")]).toEqual([303, "/admin/inbox"]);
  expect(await open()).toEqual(
    picks
      .filter((pick) => pick !== second)
      .map((pick) => pick.split(" ")[0])
      .sort(),
  );
  const again = await post(path, [
    ["pick", second!],
    ["f.approved", "false"],
  ]);
  expect(again.status).toBe(303);
  const item = async () => (await server.request(`/admin/api/cases/${second!.split(" ")[0]}`)).json();
  await expect.poll(item).toMatchObject({ final_delivery: { approved: true } });
  expect(await page(`cases/${second!.split(" ")[0]}`)).toMatch(/<dt>Answered by<\/dt><dd>api-key/);
});

async function collect(job_id: string, count: number): Promise<void> {
  await server.request("/agents/collector/jobs", {
    json: { job_context: { job_id }, job_fields: { count } },
  });
  const asked = async () => {
    const response = await server.request(`/admin/api/inbox?limit=1&job_id=${job_id}`);
    return ((await response.json()) as { total: number }).total;
  };
  await vi.waitUntil(async () => (await asked()) === count, { timeout: 120_000 });
}
const picksOf = (html: string) => [...html.matchAll(/name="pick" value="([^"]+)"/g)].map(([, one]) => one!);
const titleOf = (html: string) => /<h1>([^<]+)<\/h1>/.exec(html)?.[1];
const linkOf = (html: string, rel: string) =>
  new RegExp(`rel="${rel}" href="/admin/([^"]+)"`).exec(html)?.[1]?.replaceAll("&amp;", "&");
/** The form as a browser sends it, with these questions ticked. */
const toForm = (html: string, picks: readonly string[]): [string, string][] => [
  ...[...html.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)].map(
    ([, name, value]): [string, string] => [name!, value!],
  ),
  ...picks.map((pick): [string, string] => ["pick", pick]),
];

it("a form whose first question was answered meanwhile answers the others with what was typed", async () => {
  await collect("few", 3);
  const path = "cases/few-0/alike";
  const html = await page(path);
  const picks = picksOf(html);
  await server.request("/admin/api/cases/few-0/answer", { json: { answer: { why: "early" } } });

  expect((await post(path, [...toForm(html, picks), ["f.why", "late"]])).status).toBe(303);

  const whyOf = async (id: string) =>
    ((await (await server.request(`/admin/api/cases/${id}`)).json()) as { final_delivery?: { why?: string } })
      .final_delivery?.why;
  await expect
    .poll(() => Promise.all(["few-0", "few-1", "few-2"].map(whyOf)))
    .toEqual([...["early", "late", "late"]]);
});

it("more equal questions than a form shows are said, and answered with the forms that follow", async () => {
  await collect("many", 620);
  const first = "cases/many-7/alike";
  const walked = [];
  const titles = [];
  for (let path: string | undefined = first; path; ) {
    const html = await page(path);
    titles.push(titleOf(html));
    walked.push(...picksOf(html));
    expect(linkOf(html, "first")).toBe(path === first ? undefined : first);
    path = linkOf(html, "next");
  }
  expect(titles).toEqual([
    "Answer the first 100 of 620 questions together",
    ...[520, 420, 320, 220, 120].map((left) => `Answer the next 100 of ${left} questions together`),
    "Answer the next 20 questions together",
  ]);
  expect(walked.slice(0, 2).map((pick) => pick.split(" ")[0])).toEqual(["many-7", "many-0"]);
  expect(new Set(walked)).toHaveLength(620);

  let html = await page(first);
  // One stays open: it is not offered again by the forms that follow.
  const [kept, ...picks] = picksOf(html);
  const answered = await post(first, [...toForm(html, picks), ["f.why", "late"]]);
  const location = answered.headers.get("location");
  expect(location).toBe(`/admin/${linkOf(html, "next")}`);
  const [flash] = answered.headers.get("set-cookie")!.split(";");
  html = await page(location!.slice("/admin/".length), flash);
  expect(html).toContain("99 questions answered.");
  expect(titleOf(html)).toBe("Answer the next 100 of 520 questions together");
  const none = await post(location!.slice("/admin/".length), toForm(html, []));
  expect(titleOf(await none.text())).toBe("Answer the next 100 of 520 questions together");
  let path: string | undefined = location!.slice("/admin/".length);
  while (path) {
    html = await page(path);
    expect(picksOf(html)).not.toContain(kept);
    path = linkOf(html, "next");
  }
  const over = await post(first, [...toForm(html, walked), ["f.why", "late"]]);
  expect([over.status, (await over.text()).includes("At most 100 questions are answered together.")]).toEqual(
    [422, true],
  );
  const last = await post(first, [...toForm(html, picksOf(html)), ["f.why", "late"]]);
  expect(last.headers.get("location")).toBe("/admin/inbox");
});

it("a question is found among hundreds that are more urgent", async () => {
  const { items } = (await (await server.request("/admin/api/find?q=many-450")).json()) as {
    items: { kind: string; about: string }[];
  };
  expect(items.filter(({ kind }) => kind === "Question").map(({ about }) => about)).toEqual(["Invoice 450"]);
});
