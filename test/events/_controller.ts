import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import { createServer, defineAgent } from "../../src/index.ts";

const agent = defineAgent({ name: "Greeter", version: "1.0.0", methods: { job_start: { run: () => null } } });

export default createServer({ agents: [agent], apiKey: "a-key-for-this-test", store: createMemoryStore });
