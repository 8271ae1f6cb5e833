import { createServer } from "agent-control-service";
import { modelServer } from "agent-control-service/testing";
import { createShop } from "../refund-agent/shop.ts";
import { refundGraph } from "./agent.ts";

// Without a key, a model on this machine answers, so this runs without a network.
const url = process.env.LLM_URL ?? (await modelServer()).url;

export default createServer({ agents: [refundGraph(url, createShop())] });
