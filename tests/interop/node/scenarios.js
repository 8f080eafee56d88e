// Runs scenarios one after another with the Node client ali-ons: scenarios.js NAMESRV PREFIX.
// One scenario per input line; the answer is a line with the number of output lines, then those
// lines. What is printed depends on what the broker does, not on times, addresses or ids.
'use strict';

const readline = require('readline');
const { Clients } = require('./clients');
const sending = require('./sending');
const pushing = require('./pushing');
const loading = require('./loading');

const SCENARIOS = { ...sending, ...pushing, ...loading };

async function answerTo(clients, scenario) {
  const lines = [];
  try {
    await SCENARIOS[scenario](clients, lines);
  } catch (error) {
    lines.push(`failed ${error.stack.split('\n').slice(0, 3).join(' / ')}`);
  }
  await clients.closeAll();
  return lines;
}

async function main() {
  const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const clients = new Clients(process.argv[2], process.argv[3], input);
  console.log('ready');
  for (let next = await input.next(); !next.done; next = await input.next()) {
    const lines = await answerTo(clients, next.value);
    console.log([ `answer ${lines.length}`, ...lines ].join('\n'));
  }
  process.exit(0);
}

// The client reports what it repeats anyway; a scenario that fails says so itself.
process.on('unhandledRejection', () => {});
main();
