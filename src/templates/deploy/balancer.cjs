// The proxy of `svc deploy local --instances`: requests go to the instances in turn, past those that do not answer.
const { request: ask, createServer } = require("node:http");
const { connect } = require("node:net");
const hosts = process.env.BALANCER_HOSTS.split(" ");
const port = Number(process.env.BALANCER_PORT);
let turn = 0;

// A socket to the next instance that takes connections; a request that was sent is never sent again.
const open = (left) =>
  new Promise((resolve, reject) => {
    if (left === 0) return reject(new Error("no instance answers"));
    const socket = connect({ host: hosts[turn++ % hosts.length], port });
    const next = () => {
      socket.destroy();
      resolve(open(left - 1));
    };
    socket.setTimeout(2000, next);
    socket.once("error", next);
    socket.once("connect", () => {
      socket.removeListener("error", next);
      socket.setTimeout(0);
      resolve(socket);
    });
  });

const fail = (response, message) => {
  if (response.headersSent) return response.destroy();
  response.writeHead(502, { "content-type": "application/json" });
  response.end(JSON.stringify({ error: message }));
};

const server = createServer(async (incoming, response) => {
  const { method, url, headers, socket: client } = incoming;
  try {
    const socket = await open(hosts.length);
    const from = [headers["x-forwarded-for"], client.remoteAddress].filter(Boolean).join(", ");
    const forwarded = { ...headers, connection: "close", "x-forwarded-for": from };
    const outgoing = ask({ method, path: url, headers: forwarded, createConnection: () => socket });
    outgoing.once("error", () => fail(response, "the instance has ended"));
    outgoing.once("response", (answer) => {
      const { connection, ...rest } = answer.headers;
      response.writeHead(answer.statusCode, rest);
      answer.once("error", () => response.destroy());
      answer.pipe(response);
    });
    response.once("close", () => outgoing.destroy());
    incoming.pipe(outgoing);
  } catch (error) {
    fail(response, error.message);
  }
});
server.requestTimeout = 0;
server.listen(port, "0.0.0.0");
process.once("SIGTERM", () => process.exit(0));
