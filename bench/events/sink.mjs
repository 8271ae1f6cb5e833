// A control system that accepts everything, or never responds; counts what it accepted.
import { createServer } from "node:http";

let mode = "ok";
let count = 0;
const waiting = new Set();
const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => {
    if (mode === "hang") return void waiting.add(response);
    if (mode === "refuse") return void response.writeHead(503).end("{}");
    count++;
    response.writeHead(201, { "content-type": "application/json" }).end("{}");
    if (count === target) process.send({ reached: count });
  });
});
let target = Number.POSITIVE_INFINITY;
server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }));
process.on("message", (message) => {
  if (message.mode) mode = message.mode;
  if (message.target) {
    count = 0;
    target = message.target;
  }
  process.send({ obeyed: true });
});
