import { createServer } from "agent-control-service";
import { modelServer } from "agent-control-service/testing";
import { refundAgent } from "./agent.ts";
import { createShop, shopModel } from "./shop.ts";

// Without a key, a model on this machine answers, so this runs without a network.
const url = process.env.LLM_URL ?? (await modelServer({ reply: shopModel })).url;

export default createServer({ agents: [refundAgent(url, createShop())] });
