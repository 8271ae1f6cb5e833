import { FILES, JOBS, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "../runs/_jobs.ts";
import { gallery, pdf, png } from "./_gallery.ts";
import { signIn } from "./_sign-in.ts";

let server: TestServer;
let cookie: string;
let count = 0;
beforeAll(async () => {
  server = await testServer({ agents: [gallery] });
  cookie = await signIn(server, "Ada");
});
afterAll(() => server[Symbol.asyncDispose]());

type Given = Readonly<Record<string, string | readonly File[]>>;

/** Sends a form with files, as a page does without a script. */
function post(path: string, given: Given, headers: Record<string, string> = {}): Promise<Response> {
  const form = new FormData();
  for (const [name, value] of Object.entries(given)) {
    if (typeof value === "string") form.append(name, value);
    else for (const file of value) form.append(name, file);
  }
  return fetch(server.url + path, {
    ...{ method: "POST", redirect: "manual", body: form },
    headers: { accept: "text/html", origin: server.url, cookie, ...headers },
  });
}

const page = (path: string, headers = {}) =>
  fetch(server.url + path, { headers: { accept: "text/html", cookie, ...headers } });
const text = (content: string, name: string, type = "text/plain") => new File([content], name, { type });
const PDF = new File([new Uint8Array(pdf(["Clause 1"]))], "contract.pdf", { type: "application/pdf" });

/** A job of the form, which asks now. */
async function start(given: Given): Promise<string> {
  const id = `files-${++count}`;
  const response = await post("/admin/agents/gallery/start", { job_id: id, ...given });
  expect([response.status, response.headers.get("location")]).toEqual([303, `/admin/jobs/${id}`]);
  await until(server.service, id, ["awaiting"]);
  return id;
}

async function questionOf(id: string): Promise<string> {
  const inbox = await (await page(`/admin/inbox?question=${id}-case`)).text();
  return /name="question_id" value="([^"]+)"/.exec(inbox)![1]!;
}

const listOf = async (id: string) =>
  (await (await server.request(`/jobs/${id}/files`)).json()) as {
    name: string;
    sha256: string;
    type: string;
  }[];

describe("forms with files", () => {
  it("a job is started and its question answered with files, without a script", async () => {
    const form = await (await page("/admin/agents/gallery/start")).text();
    expect(form).toContain('enctype="multipart/form-data"');
    expect(form).toMatch(/type="file"[^>]*name="f\.files" multiple/);
    const id = await start({ "f.files": [text("one", "a.txt"), text("two", "b.txt")], "f.contract": [PDF] });
    const { job_fields } = await server.service.get(JOBS).get(id);
    expect(job_fields).toMatchObject({
      files: [{ name: "a.txt" }, { name: "b.txt" }],
      contract: { name: "contract.pdf", type: "application/pdf" },
    });
    const answer = {
      question_id: await questionOf(id),
      "f.signed": [text("signed", "s.txt")],
      "f.fine": "true",
    };
    expect((await post(`/admin/cases/${id}-case/answer`, answer)).status).toBe(303);
    await until(server.service, id, ["completed"]);
    expect((await server.service.get(JOBS).get(id)).result).toMatchObject({ text: "signed" });
    expect((await listOf(id)).map(({ name }) => name)).toEqual(
      expect.arrayContaining(["a.txt", "b.txt", "contract.pdf", "note.txt", "s.txt"]),
    );
  });

  it("a form that is shown again keeps the files that were sent", async () => {
    const job_id = `files-${++count}`;
    const refused = await post("/admin/agents/gallery/start", {
      ...{ job_id, "f.files": [text("kept", "kept.txt")], "f.contract": [text("no", "no.txt")] },
    });
    expect(refused.status).toBe(422);
    const shown = await refused.text();
    const [files, contract] = ["f.files", "f.contract"].map(
      (name) =>
        new RegExp(`type="hidden" name="${name.replace(".", "\\.")}" value="([^"]+)"`).exec(shown)![1]!,
    );
    const again = { job_id, "f.files": files!, "f.contract": contract! };
    expect((await post("/admin/agents/gallery/start", again)).status).toBe(422);
    const form = new FormData();
    form.append("job_id", job_id);
    form.append("f.files", files!);
    form.append("f.contract", contract!);
    form.append("f.contract", PDF);
    const sent = await fetch(`${server.url}/admin/agents/gallery/start`, {
      ...{ method: "POST", redirect: "manual", body: form },
      headers: { accept: "text/html", origin: server.url, cookie },
    });
    expect(sent.status).toBe(303);
    await until(server.service, job_id, ["awaiting"]);
    expect((await server.service.get(JOBS).get(job_id)).job_fields).toMatchObject({
      files: [{ name: "kept.txt" }],
      contract: { name: "contract.pdf" },
    });
  });

  it("a form with files from another site, or without a session, stores none", async () => {
    const uploads = () => server.service.get(STORE).table("FileUpload").ids({ limit: 1000 });
    const before = await uploads();
    const given = { job_id: "none", "f.files": [text("x", "x.txt")] };
    const foreign = { origin: "https://elsewhere.example" };
    expect((await post("/admin/agents/gallery/start", given, foreign)).status).toBe(403);
    expect((await post("/admin/agents/gallery/start", given, { cookie: "" })).status).toBe(401);
    expect((await post("/answer", { token: "wrong", "f.signed": [text("x", "x.txt")] })).status).toBe(404);
    expect((await post("/answer", { "f.signed": [text("x", "x.txt")], token: "late" })).status).toBe(404);
    expect(await uploads()).toEqual(before);
  });
});

describe("files on pages", () => {
  const CONTENTS = [
    new File([new Uint8Array(png(8, 8, [200, 30, 30]))], "red.png"),
    text('a,b\n1,"x <b>"\n', "table.csv", "text/csv"),
    text('[{"name":"<i>"},{"name":"B","n":2}]', "rows.json", "application/json"),
    text(
      "# Title\n\n- one\n- <script>alert(1)</script> [site](https://example.com) [bad](javascript:alert(1))",
      "note.md",
      "text/markdown",
    ),
    text("--- a\n+++ b\n-old\n+new <b>", "change.diff", "text/x-diff"),
    text("<script>parent.document.title='stolen'</script>", "page.html", "text/html"),
    text("", "empty.txt"),
  ];
  let id: string;
  beforeAll(async () => {
    id = await start({ "f.files": CONTENTS });
  });

  const viewOf = async (name: string) => {
    const { sha256 } = (await listOf(id)).find((one) => one.name === name)!;
    return (await page(`/admin/jobs/${id}/files/${sha256}/view?name=${name}`)).text();
  };

  it("a job lists its files, a case those of its steps", async () => {
    const job = await (await page(`/admin/jobs/${id}`)).text();
    for (const { name } of CONTENTS) expect(job).toContain(`<bdi>${name}</bdi>`);
    expect(job).toMatch(
      /<img src="\/admin\/jobs\/[^"]+red\.png[^"]*" alt="" width="34" height="34" loading="lazy">/,
    );
    const item = await (await page(`/admin/cases/${id}-case`)).text();
    expect(item).toContain("<bdi>note.txt</bdi>");
    expect(item).not.toContain("<bdi>red.png</bdi>");
  });

  it.each([
    ["table.csv", ['<th scope="col">a</th>', "<td>x &lt;b&gt;</td>"]],
    ["rows.json", ['<th scope="col">n</th>', "<td>&lt;i&gt;</td>", "<td>2</td>"]],
    ["note.md", ['md-h1">Title', "&lt;script&gt;", 'href="https://example.com"', "bad"]],
    ["change.diff", ['<span class="d-in">+new &lt;b&gt;</span>', '<span class="d-out">-old</span>']],
    ["page.html", ["sandbox loading"]],
    ["empty.txt", ["The file is empty"]],
  ])("the page of %s shows what it says, as text", async (name, wanted) => {
    const shown = await viewOf(name);
    for (const one of wanted) expect(shown).toContain(one);
    expect(shown).not.toMatch(/<script>|javascript:alert\(1\)"|<i>|<b>x/);
  });

  it("HTML is sent to a frame of the service's pages only, in a sandbox", async () => {
    const { sha256 } = (await listOf(id)).find((one) => one.name === "page.html")!;
    const path = `/admin/jobs/${id}/files/${sha256}?inline=true`;
    const framed = await page(path, { "sec-fetch-dest": "iframe" });
    expect([framed.status, framed.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    const policy = framed.headers.get("content-security-policy")!;
    for (const part of ["default-src 'none'", "sandbox;", "frame-ancestors 'self'"])
      expect(policy).toContain(part);
    expect(policy).not.toMatch(/script-src|allow-/);
    for (const headers of [{}, { "sec-fetch-dest": "document" }, { "sec-fetch-dest": "object" }]) {
      const opened = await page(path, headers);
      expect(opened.headers.get("content-type")).toBe("application/octet-stream");
      expect(opened.headers.get("content-disposition")).toMatch(/^attachment/);
      expect(opened.headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
    }
    expect((await page(path, { cookie: "", "sec-fetch-dest": "iframe" })).status).toBe(401);
  });
});

describe("the files of a question", () => {
  const link = async (id: string, body: object): Promise<URL> => {
    const made = await server.request(`/admin/api/cases/${id}-case/links`, {
      json: { name: "Mira", ...body },
    });
    return new URL(((await made.json()) as { path: string }).path, server.url);
  };
  const files = [text("first", "first.txt"), text("second", "second.txt")];

  it("those that it names are beside it, and else those of its case", async () => {
    const named = await start({ "f.files": files, "f.show": "second.txt" });
    const shown = await (await page(`/admin/inbox?question=${named}-case`)).text();
    expect(shown).toMatch(/<figure class="file">[\s\S]*second\.txt[\s\S]*second<\/pre>/);
    expect(shown).not.toContain("first.txt");
    const other = await start({ "f.files": files });
    const own = await (await page(`/admin/inbox?question=${other}-case`)).text();
    expect(own).toMatch(/<figure class="file">[\s\S]*made in a step of the case/);
  });

  it("one that is nested as deeply as its length allows is shown, too", async () => {
    const lists = 30_000;
    const deep = text(`[{"a":${"[".repeat(lists)}${"]".repeat(lists)}}]`, "deep.json", "application/json");
    const id = await start({ "f.files": [deep], "f.show": "deep.json" });
    const shown = await page(`/admin/inbox?question=${id}-case`);
    expect([shown.status, await shown.text()]).toEqual([200, expect.stringContaining("<td>…</td>")]);
  });

  it("a link shows those that the question names, takes files, and reaches no others", async () => {
    const id = await start({ "f.files": files, "f.show": "second.txt" });
    const url = await link(id, {});
    const html = await (await page(url.pathname + url.search, { cookie: "" })).text();
    expect(html).toContain("second</pre>");
    const href = /href="(\/answer\/files\/[^"]+)"/.exec(html)![1]!.replaceAll("&amp;", "&");
    expect(await (await page(href, { cookie: "" })).text()).toBe("second");
    const listed = await listOf(id);
    const other = listed.find(({ name }) => name === "first.txt")!.sha256;
    const shown = listed.find(({ name }) => name === "second.txt")!.sha256;
    expect((await page(href.replace(shown, other), { cookie: "" })).status).toBe(404);
    expect((await page(`/answer/files/${shown}`, { cookie: "" })).status).toBe(404);
    const token = url.searchParams.get("token")!;
    const stranger = await server.service
      .get(FILES)
      .add({ name: "s.txt", access: "somebody" }, [Buffer.from("s")] as never);
    const stolen = await post(
      "/answer",
      { token, "f.signed": stranger.id, "f.fine": "true" },
      { cookie: "" },
    );
    expect(stolen.status).not.toBe(200);
    const given = { token, "f.signed": [text("by Mira", "m.txt")], "f.fine": "true" };
    expect((await post("/answer", given, { cookie: "" })).status).toBe(200);
    await until(server.service, id, ["completed"]);
    expect((await server.service.get(JOBS).get(id)).result).toMatchObject({ text: "by Mira" });
    expect((await page(href, { cookie: "" })).status).toBe(409);
  });

  it("a link shows the files of the case only with what its steps found", async () => {
    const id = await start({ "f.files": files });
    const [plain, full] = [await link(id, {}), await link(id, { evidence: true })];
    const show = async (url: URL) => (await page(url.pathname + url.search, { cookie: "" })).text();
    expect(await show(plain)).not.toContain("made in a step");
    expect(await show(full)).toContain("made in a step");
  });
});
