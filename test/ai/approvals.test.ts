import { tool as openAiTool } from "@openai/agents-core";
import type { CaseHandle, JobHandle } from "agent-control-service";
import { durableTools, runGraph } from "agent-control-service/ai";
import { mcpTools } from "agent-control-service/mcp";
import { testServer } from "agent-control-service/testing";
import { tool } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { agentOf } from "../runs/_agent.ts";
import { jobContext } from "../runs/_jobs.ts";

type Options = Readonly<Record<string, unknown>>;

/** Both kinds of tools, each with options as JavaScript may give them. */
const KINDS = {
  "of the AI SDK": (options: Options, made: string[]) => {
    const refund = tool({
      inputSchema: z.object({ id: z.string() }),
      execute: ({ id }) => {
        made.push(id);
        return id;
      },
    });
    return (handle: JobHandle | CaseHandle) => {
      const { refund: durable } = durableTools(handle, {
        refund: { ...refund, ...options },
      } as never) as unknown as {
        refund: { execute(input: unknown, details: unknown): Promise<unknown> };
      };
      return durable.execute({ id: "12" }, { toolCallId: "call-1", messages: [] });
    };
  },
  "of OpenAI Agents": (options: Options, made: string[]) => {
    const refund = openAiTool({
      name: "refund",
      description: "Refunds",
      parameters: z.object({ id: z.string() }),
      errorFunction: null,
      execute: (input) => {
        const { id } = input as { id: string };
        made.push(id);
        return id;
      },
    });
    return (handle: JobHandle | CaseHandle) => {
      const [durable] = durableTools(handle, [{ ...refund, ...options }] as never) as unknown as [
        { invoke(context: unknown, input: string, details?: unknown): Promise<unknown> },
      ];
      return durable.invoke({} as never, JSON.stringify({ id: "12" }), { toolCall: { callId: "call-1" } });
    };
  },
};

async function run(call: (handle: JobHandle) => Promise<unknown>, isApproved: boolean) {
  const agent = agentOf(async ({ job }) => String(await call(job)));
  await using server = await testServer({ agents: [agent] });
  const asked: string[] = [];
  const answers = ({ question }: { question: string }) => {
    asked.push(question);
    return { approved: isApproved };
  };
  const { job } = await server.run(agent, { answers });
  return { status: job.status, error: JSON.stringify(job.responses.at(-1)), asked };
}

describe.each(Object.entries(KINDS))("a tool %s", (_kind, make) => {
  it.each([
    [{ approvals: true }, "its option approvals is not known: did you mean approval?"],
    [{ approve: true }, "its option approve is not known: did you mean approval?"],
    [{ aproval: () => true }, "its option aproval is not known: did you mean approval?"],
    [{ needApproval: true }, "its option needApproval is not known: did you mean needsApproval?"],
    [{ step: true }, "its option step is not known: did you mean steps?"],
    [{ approval: undefined }, "approval must be true, false, the question as text, or a function"],
    [{ approval: null }, "approval must be true, false, the question as text, or a function"],
    [{ approval: 1 }, "approval must be true, false, the question as text, or a function"],
    [{ approval: "" }, "approval must be true, false, the question as text, or a function"],
    [{ steps: "yes" }, "steps must be true or false"],
  ])("with the options %o is refused, and never called", async (options, problem) => {
    const made: string[] = [];

    const { status, error, asked } = await run(make(options, made), true);

    expect({ status, made, asked }).toEqual({ status: "failed", made: [], asked: [] });
    expect(error).toContain(problem);
  });

  it("that asks for approval gets a yes or a no: an answer without either is refused, and the question waits", async () => {
    const made: string[] = [];
    const call = make({ approval: true }, made);
    const agent = agentOf(async ({ job }) => String(await call(job)));
    await using server = await testServer({ agents: [agent] });
    await server.request(`/agents/worker/jobs`, { json: { job_context: jobContext("one"), job_fields: {} } });
    const question = async () => {
      const [found] = (await (await server.request("/jobs/one/cases")).json()) as {
        id: string;
        status: string;
      }[];
      return found;
    };
    await expect.poll(async () => (await question())?.status).toBe("awaiting");
    const { id } = (await question())!;

    const unsaid = await server.request(`/jobs/one/cases/${id}/update`, {
      json: { answer: { comment: "hm" } },
    });

    expect(unsaid.status).toBe(422);
    expect(await unsaid.text()).toContain("approved");
    expect([(await question())?.status, made]).toEqual(["awaiting", []]);
  });

  it.each([[() => undefined], [() => null], [() => 0], [async () => ""], [async () => ({})]])(
    "whose approval gives neither true, false nor text (%o) is not called",
    async (approval) => {
      const made: string[] = [];

      const { status, error } = await run(make({ approval }, made), true);

      expect({ status, made }).toEqual({ status: "failed", made: [] });
      expect(error).toContain('The approval of the tool \\"refund\\" gave');
    },
  );

  it.each([
    [true, true],
    [true, false],
    [() => true, false],
    [async ({ id }: { id: string }) => `Refund ${id}?`, true],
    ["Refund it?", false],
  ])(
    "with the approval %o asks, and is called only if a person approves (%s)",
    async (approval, isApproved) => {
      const made: string[] = [];

      const { status, asked } = await run(make({ approval }, made), isApproved);

      expect({ status, asked: asked.length }).toEqual({ status: "completed", asked: 1 });
      expect(made).toEqual(isApproved ? ["12"] : []);
    },
  );

  it("that its library's needsApproval asks about is asked about, whatever approval says", async () => {
    const made: string[] = [];
    const needsApproval = async () => true;

    const { asked } = await run(make({ approval: false, needsApproval }, made), false);

    expect([asked.length, made]).toEqual([1, []]);
  });

  it("without approval is called without a question", async () => {
    const made: string[] = [];

    const { asked } = await run(make({ approval: () => false }, made), true);

    expect([asked, made]).toEqual([[], ["12"]]);
  });
});

it("a tool that is called elsewhere cannot have an approval", () => {
  const search = { type: "provider", id: "openai.search", args: {}, inputSchema: {}, approval: true };

  expect(() => durableTools({} as never, { search } as never)).toThrow(/approval has no effect/);
  const hosted = { type: "hosted_tool", name: "web_search", providerData: {}, anything: 1 };
  expect(() => durableTools({} as never, [{ ...hosted, approval: true }] as never)).toThrow(
    /approval has no effect/,
  );
  expect(durableTools({} as never, [hosted])).toEqual([hosted]);
});

it("options of graphs, of tools of servers and of their calls are not dropped", async () => {
  const files = (options: object) => mcpTools("https://files.example.com/mcp", options);

  expect(() => files({ approval: true })).toThrow(/approval is not known/);
  await expect(
    runGraph({ invoke: async () => 1 }, {} as never, {}, { quesion: () => 1 } as never),
  ).rejects.toThrow(/quesion is not known: did you mean question\?/);
});
