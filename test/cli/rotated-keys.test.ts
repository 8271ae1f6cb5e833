// @long
import { generateKeyPairSync } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { signIn } from "../admin/_sign-in.ts";
import { beginSvc, PROCESS_TIME, project, type Running } from "./_svc.ts";

const CONTROLLER = `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";
export default createServer({ port: 0, agents: [defineAgent({
  name: "Payer", version: "1.0.0", parameters: [{ name: "TOKEN" }],
  methods: { job_start: { async run({ job, parameters }) {
    const item = await job.openCase({ id: job.id + "-case", name: "Payment" });
    await item.ask({ key: "pay", question: "Pay?", fields: [{ name: "approved", field_type: "BooleanField" }] });
    await job.step("pay", () => appendFileSync("paid.log", job.id + " " + parameters.TOKEN + "\\n"));
  } } },
})] });
`;
const JOBS = Array.from({ length: 120 }, (_, at) => `job-${at}`);

const makeKey = () =>
  generateKeyPairSync("rsa", { modulusLength: 2048 })
    .privateKey.export({ type: "pkcs8", format: "pem" })
    .toString();

/** A service in a process of its own, which is started with other keys again and again. */
class Rotated {
  readonly #folder: string;
  #running!: Running;
  url = "";
  key = "";

  constructor(folder: string) {
    this.#folder = folder;
  }

  async start(env: Readonly<Record<string, string>> & { readonly SERVICE_API_KEY: string }): Promise<void> {
    this.#running = beginSvc(["start", "controller.mjs"], { cwd: this.#folder, env: { ...env } });
    this.key = env.SERVICE_API_KEY;
    await this.#running.prints(/http:\/\/127\.0\.0\.1:\d+/);
    this.url = (await readFile(join(this.#folder, "data/address"), "utf8")).trim();
  }

  async kill(): Promise<void> {
    this.#running.process.kill("SIGKILL");
    await this.#running.finished;
  }

  prints(pattern: RegExp): Promise<RegExpMatchArray> {
    return this.#running.prints(pattern);
  }

  async send(path: string, body?: unknown, credentials: Record<string, string> = {}): Promise<Response> {
    const isNamed = Object.keys(credentials).length > 0;
    const who = isNamed ? credentials : { "x-api-key": this.key };
    const all = { "content-type": "application/json", ...who };
    const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    return fetch(this.url + path, { headers: all, ...sent });
  }

  async get<T>(path: string, body?: unknown): Promise<T> {
    const response = await this.send(path, body);
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  async until(id: string, status: string): Promise<void> {
    await expect.poll(async () => (await this.get<{ status: string }>(`/jobs/${id}`)).status).toBe(status);
  }
}

it("every key of the service can be replaced while jobs are open, whenever the process is killed: nothing is lost", {
  timeout: 2 * PROCESS_TIME,
}, async () => {
  const folder = await project({ "controller.mjs": CONTROLLER });
  const service = new Rotated(folder);
  const [oldKey, newKey] = ["the-former-key-of-this-service", "the-present-key-of-this-service"];
  const [oldRsa, newRsa] = [makeKey(), makeKey()];

  await service.start({ SERVICE_API_KEY: oldKey, SERVICE_RSA_PRIVATE_KEY: oldRsa });
  for (const id of JOBS) {
    const encrypted_agent_parameters = await service.get("/utils/encrypt", `{"TOKEN":"secret of ${id}"}`);
    const job_context = { job_id: id };
    await service.get("/agents/payer/jobs", { job_context, job_fields: {}, encrypted_agent_parameters });
  }
  for (const id of JOBS) await service.until(id, "awaiting");
  const cookie = await signIn(service);
  const { token } = await service.get<{ token: string }>("/jobs/job-0/tokens", {});
  const signed = await service.get<{ keys: { kid: string }[] }>("/access/signing-keys");
  await service.kill();

  const both = {
    ...{ SERVICE_API_KEY: newKey, SERVICE_PREVIOUS_API_KEY: oldKey },
    ...{ SERVICE_RSA_PRIVATE_KEY: newRsa, SERVICE_PREVIOUS_RSA_PRIVATE_KEY: oldRsa },
  };
  // It begins to encrypt parameters again when it listens.
  for (let kills = 0; kills < 3; kills++) {
    await service.start(both);
    await service.kill();
  }
  await service.start(both);
  await service.prints(/all stored parameters are encrypted for the present RSA key/);
  const session = await service.send("/admin/api/sessions", undefined, { cookie });
  const bearer = { authorization: `Bearer ${token}` };
  const page = await service.send("/jobs/job-0", undefined, bearer);
  await service.get("/access/signing-keys", {});
  await service.kill();

  await service.start({ SERVICE_API_KEY: newKey, SERVICE_RSA_PRIVATE_KEY: newRsa });
  for (const id of JOBS)
    await service.get(`/jobs/${id}/cases/${id}-case/update`, { answer: { approved: true } });
  for (const id of JOBS) await service.until(id, "completed");

  const paid = (await readFile(join(folder, "paid.log"), "utf8")).trim().split("\n");
  expect(paid.toSorted()).toEqual(JOBS.map((id) => `${id} secret of ${id}`).toSorted());
  expect([session.status, page.status]).toEqual([200, 200]);
  const keys = await service.get<{ keys: { kid: string }[] }>("/access/signing-keys");
  expect(keys.keys.map(({ kid }) => kid)).toEqual([expect.any(String), signed.keys[0]!.kid]);
  const refused = await service.send("/jobs", undefined, { "x-api-key": oldKey });
  expect(refused.status).toBe(401);
});
