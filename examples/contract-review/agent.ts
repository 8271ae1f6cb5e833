import { join } from "node:path";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { defineAgent, type FileValue, file, type JobStartContext } from "agent-control-service";
import { durable } from "agent-control-service/ai";
import { generateText } from "ai";
import * as v from "valibot";
import { type Clause, findingsOf, readClauses } from "./clauses.ts";
import { type Decision, fingerprintOf, signReport, writeReport } from "./report.ts";

const SAMPLE = join(import.meta.dirname, "contract.pdf");

/** Reads a contract, asks a person about each unusual clause beside its page, and signs what was decided. */
export const contractReview = defineAgent({
  name: "Contract Review",
  version: "1.0.0",
  parameters: [
    { name: "SIGNING_KEY", is_secret: true, is_environment: true },
    { name: "LLM_KEY", is_environment: true },
  ],
  methods: {
    job_start: {
      description: "Review a contract; without a file, the sample in the folder of this example",
      fields: v.object({ contract: v.optional(file({ accept: ["application/pdf"], maxSize: 20_000_000 })) }),
      async run({ job, fields, parameters }) {
        const contract = fields.contract ?? (await job.file("contract.pdf", { path: SAMPLE }));
        const clauses = await job.step("read", async () => readClauses(await job.open(contract).bytes()));
        const review = (clause: Clause) => decide({ job, clause, contract, llmKey: parameters.LLM_KEY });
        const decisions = (await Promise.all(clauses.map(review))).filter((one) => one !== undefined);
        const signed = await job.step("sign", async ({ file }) => {
          const report = writeReport(contract, clauses.length, decisions);
          const { signature, publicKey } = signReport(report, parameters.SIGNING_KEY);
          return {
            report: await file("report.md", report, { type: "text/markdown" }),
            signature: await file("report.md.sig", signature),
            key: await file("signer.pem", publicKey, { type: "text/plain" }),
            signer: fingerprintOf(publicKey),
          };
        });
        await job.artifact("report", signed.report, { title: `Review of ${contract.name}` });
        return { message: `${decisions.length} of ${clauses.length} clauses decided`, ...signed };
      },
    },
  },
});

interface Asked {
  readonly job: JobStartContext["job"];
  readonly clause: Clause;
  readonly contract: FileValue;
  readonly llmKey: string | undefined;
}

/** What a person decides about a clause; `undefined` where nothing about it is unusual. */
async function decide({ job, clause, contract, llmKey }: Asked): Promise<Decision | undefined> {
  const findings = findingsOf(clause);
  if (findings.length === 0) return undefined;
  const name = `${clause.number}. ${clause.title}`;
  const item = await job.openCase({ id: `clause-${clause.number}`, name, description: findings.join(" ") });
  const advice = process.env.LLM_URL ? await explain(item, clause, llmKey) : "";
  const { verdict, note } = await item.ask("clause", {
    question: `Page ${clause.page}, ${name}. ${findings.join(" ")} ${advice}`.trim(),
    fields: v.object({
      verdict: v.picklist(["accept", "negotiate", "reject"]),
      note: v.optional(v.string()),
    }),
    files: [{ ...contract, page: clause.page }],
  });
  await item.close({ verdict, note });
  return { clause, findings, verdict, note };
}

/** What a model at LLM_URL says of a clause: its calls are recorded, so that none is made twice. */
async function explain(item: Parameters<typeof durable>[1], { text }: Clause, apiKey = ""): Promise<string> {
  const provider = createOpenAICompatible({ name: "openai", baseURL: process.env.LLM_URL!, apiKey });
  const { text: advice } = await generateText({
    model: durable(provider(process.env.LLM_MODEL ?? "gpt-5-mini"), item),
    prompt: `In one sentence, what does this clause mean for the customer?\n\n${text}`,
  });
  return advice;
}
