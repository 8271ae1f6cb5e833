import { defineAgent, defineChat } from "agent-control-service";
import * as v from "valibot";

/** The variable that one of its parameters comes from. */
export const VARIABLE = "GATE_SUITE_TOKEN";

/** A file that it makes. */
export const NOTE = { name: "note.txt", text: "noted" } as const;

/** Puts its secrets wherever an agent can put anything. */
export const clerk = defineAgent({
  name: "Clerk",
  version: "1.0.0",
  parameters: [
    { name: "TOKEN", is_secret: true },
    { name: VARIABLE, is_secret: true, is_environment: true },
  ],
  methods: {
    job_start: {
      fields: v.object({ mode: v.optional(v.picklist(["tell", "ask", "fail", "spend"]), "tell") }),
      async run({ job, fields, parameters, log, telemetry }) {
        const all = Object.values(parameters).join(" ");
        log.info(`knows ${all}`, parameters);
        telemetry({ type: "custom", details: { parameters, all } });
        if (fields.mode === "spend") await job.step("buy", () => all, { cost: 2 });
        const isNoted = fields.mode === "tell" || fields.mode === "ask";
        const files = isNoted ? [await job.file(NOTE.name, NOTE.text)] : [];
        const item = await job.openCase({ id: "told", name: all, description: all });
        await item.update({ name: all, payload: { ...parameters, [all]: all } });
        await item.step("step", () => parameters);
        if (fields.mode === "ask")
          await item.ask({ question: `Is it ${all}?`, fields: v.object({ approved: v.boolean() }), files });
        await item.close({ parameters });
        if (fields.mode === "fail") throw new Error(`It was ${all}`, { cause: new Error(all) });
        return { message: all, parameters };
      },
    },
    job_status: { run: ({ parameters }) => ({ message: "told", ...parameters }) },
    chat: { run: ({ parameters }) => parameters },
    custom: {
      tell: { run: ({ parameters }) => ({ message: Object.values(parameters).join(), ...parameters }) },
      fail: {
        run: ({ parameters }) => {
          throw new Error(`It was ${Object.values(parameters).join()}`);
        },
      },
    },
  },
});

/** Answers messages with its secret. */
export const talker = defineChat({
  name: "Talker",
  version: "1.0.0",
  parameters: [{ name: VARIABLE, is_secret: true, is_environment: true }],
  reply: ({ turn, message, parameters }) =>
    turn.step("say", ({ emit }) => {
      emit(`${message} ${parameters[VARIABLE]}`);
      return `${message} ${parameters[VARIABLE]}`;
    }),
});
