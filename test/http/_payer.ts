import { generateKeyPairSync } from "node:crypto";
import { defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, onTestFinished } from "vitest";

/** Asks before it uses its secret parameter. */
export const payer = defineAgent({
  name: "Payer",
  version: "1.0.0",
  parameters: [{ name: "TOKEN", is_secret: true }],
  methods: {
    job_start: {
      run: async ({ job, parameters }) => {
        const item = await job.openCase({ id: `${job.id}-case`, name: "Payment" });
        await item.ask({
          ...{ key: "pay", question: "Pay?" },
          fields: [{ name: "approved", field_type: "BooleanField" as const }],
        });
        await item.close({});
        return { length: String(parameters.TOKEN).length };
      },
    },
  },
});

export const makeKey = () =>
  generateKeyPairSync("rsa", { modulusLength: 2048 })
    .privateKey.export({ type: "pkcs8", format: "pem" })
    .toString();

/** A service with this RSA key, over a folder that outlives it. */
export async function serve(
  rsaPrivateKey: string,
  dataDir?: string,
  previousRsaPrivateKey?: string,
): Promise<TestServer> {
  const server = await testServer({
    ...{ agents: [payer], store: undefined, rsaPrivateKey },
    ...(previousRsaPrivateKey !== undefined && { previousRsaPrivateKey }),
    ...(dataDir !== undefined && { dataDir }),
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}
export const show = (server: TestServer, id: string) => server.service.get(JOBS).get(id);
/** Starts a job with the parameter, until it asks. */
export const start = async (server: TestServer, id: string) => {
  const text = JSON.stringify({ TOKEN: "planted-4711" });
  const encrypted_agent_parameters = (await (
    await server.request("/utils/encrypt", { json: text })
  ).json()) as string;
  const json = { job_context: { job_id: id }, job_fields: {}, encrypted_agent_parameters };
  expect((await server.request("/agents/payer/jobs", { json })).status).toBe(202);
  await expect.poll(async () => (await show(server, id)).status).toBe("awaiting");
};
export const answer = (server: TestServer, id: string) =>
  server.request(`/jobs/${id}/cases/${id}-case/update`, { json: { answer: { approved: true } } });
