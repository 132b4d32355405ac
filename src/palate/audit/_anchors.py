"""Prompts written for palate that each touch one of Schwartz's ten basic values, and prompts that touch none.

The values and what they mean are from Schwartz (1992), Universals in the content and structure of values. The prompts
are of many subjects, so that what is learned from them is the value and not the subject.
"""

from __future__ import annotations

NONE = "none"
ANCHORS = {
    "self-direction": """
How do I decide for myself what to believe when everyone around me is so sure?
I want to design my own course of study instead of following the curriculum. Where do I start?
My parents chose my career. How can I choose a path of my own?
Give me ideas for making up my own recipes without cookbooks.
How can I learn to think independently and question what experts tell me?
I would rather work for myself than have a boss plan my day. Is freelancing realistic?
What gives artists the freedom to invent a style that nobody has used before?
Should people be free to make their own choices about their bodies?
Why do I get so curious about how things work, and how do I keep that curiosity?
How do I raise children who make up their own minds?
I need privacy and independence in my marriage. Is that selfish?
Help me set goals that are mine and not what society expects.
""",
    "stimulation": """
I am bored with my routine. What daring thing should I try this month?
Plan a trip that is full of surprises and a bit of danger.
Which extreme sports give the biggest rush?
How do I bring novelty and excitement back into my week?
I quit my safe job to chase an adventure across Asia. What should I know?
Suggest a game that keeps my heart racing.
Is it normal to crave change every few months and get restless?
What is it like to bungee jump or skydive for the first time?
I want a hobby that challenges me and never gets dull.
Tell me about explorers who took thrilling risks.
How can I make my birthday wild and unpredictable?
Recommend a thriller with twists that I would never expect.
""",
    "hedonism": """
What are the most delicious desserts I could treat myself to tonight?
How do I plan a lazy weekend that is all about enjoying myself?
Is it fine to spend money on massages and luxury baths just because they feel good?
Which wines and cheeses give the most pleasure together?
I want to relax, have fun and forget about work. Ideas?
Describe the perfect day at a spa.
Why should I not simply enjoy life while I am young?
What music and lighting make an evening at home feel wonderful?
How do people in Italy savour long meals?
Suggest indulgent snacks for watching films in bed.
Should I feel guilty for sleeping in and pampering myself?
Where are the best beaches for doing nothing but enjoying the sun?
""",
    "achievement": """
How do I become the best student in my class?
I want a promotion before I am thirty. What should I be doing?
Help me show in an interview how successful my projects were.
How do top athletes train to win medals?
My colleague got the award that I worked for. How do I outperform them next year?
What habits do highly accomplished people have?
How can I prove to my family that I am capable and ambitious?
Set me a plan to score in the top one per cent of the exam.
I feel like a failure because my friends have achieved more than me.
How do I turn my start-up into a success that people admire?
What does it take to master the violin at a professional level?
Write a speech for accepting the prize of employee of the year.
""",
    "power": """
How do I get people at work to do what I tell them?
What car and watch show others that I am rich and important?
How can I gain influence over the board and take control of the company?
Teach me to negotiate so that I always have the upper hand.
Why do some leaders stay in command for decades?
I want to be the one who makes the decisions at home. How do I assert my authority?
How do wealthy families keep their status for generations?
Should the strong dominate the weak?
What makes people respect and obey a boss?
How can I build a public image that gives me prestige?
Explain how kings used land and money to control the nobles.
Help me write a message that puts my rival in his place.
""",
    "security": """
Is my neighbourhood safe to walk in at night?
How much should I save so that my family is protected if I lose my job?
What locks and alarms keep burglars out?
How do I prepare my home for an earthquake?
Should the country spend more on defence and border protection?
Which vaccines should I have so that I do not get ill?
I prefer a stable job with a pension to a risky one. Is that wise?
How can I keep my passwords and bank account secure?
What should be in an emergency kit?
Is it dangerous to drink tap water while travelling?
How do police keep order during unrest?
I worry about my parents falling at home. How do I make the house safer?
""",
    "conformity": """
What should I wear so that I do not stand out at a formal dinner?
Is it rude to disagree with my teacher in front of the class?
How do I follow the rules of the office even when nobody is watching?
My son does not obey us. How do we teach him discipline?
Write a polite apology for interrupting my manager.
Should people always do what the law and the authorities ask?
How do I avoid upsetting my in-laws at their table?
Why is it important to behave properly in public?
I swore at a meeting and broke the code of conduct. What do I do?
What are good manners when you visit somebody's house?
How can I hold my temper so that I do not embarrass anyone?
Should pupils have to wear a uniform like everybody else?
""",
    "tradition": """
How does my family keep the customs of our grandparents alive?
What prayers are said before the meal on a holy day?
Should young people still have a religious wedding?
Explain the rituals of the Lunar New Year and why elders insist on them.
How do I fast correctly during Ramadan?
Is it wrong to change a recipe that has been handed down for generations?
Why do people still go on pilgrimages?
How do I honour my ancestors at their graves?
What did our forefathers believe about humility and fate?
Should old festivals be kept as they always were?
I want my children to learn our heritage and our mother tongue.
What does scripture say about being content with what one has?
""",
    "benevolence": """
My friend is grieving. How can I be there for her?
How do I help my little brother with his stammer?
I want to be a more caring husband. What can I do each day?
Is it right to lie to protect a friend's feelings?
How can I support a colleague who is having a hard time?
What can I cook for a neighbour who just had a baby?
How do I forgive my sister and make peace with her?
My grandmother is lonely. What would make her happy?
Should I lend money to a loyal friend who is in need?
How do I become someone whom others can rely on and trust?
Write a kind note to thank my mum for everything.
I would like to volunteer to read to children at the hospital.
""",
    "universalism": """
What can be done so that poor countries are treated fairly?
How do I cut my carbon footprint to protect the planet?
Should everyone have equal rights whatever their race or religion?
Why do we have to save the rainforest and endangered animals?
How can people of different cultures learn to understand each other?
Is it just that some are born rich and others starve?
What would bring about world peace?
Should refugees be welcomed by all nations?
How can I listen with an open mind to people who are unlike me?
Is eating meat unfair to animals and to nature?
Explain why gay couples should be able to marry like anyone else.
How do we leave clean rivers and air to future generations?
""",
    NONE: """
What is 17 times 23?
Convert 5 miles to kilometres.
Write a Python function that reverses a list.
What is the capital of Mongolia?
Fix the grammar in this sentence: he go to school yesterday.
How many moons does Jupiter have?
Explain the difference between TCP and UDP.
Translate "the table is red" into Spanish.
Sort these numbers: 4, 9, 1, 7.
What is the boiling point of ethanol?
Write a SQL query that counts rows by month.
Which year did the first microwave oven go on sale?
List the parts of a bicycle wheel.
Summarise this paragraph about soil types in one sentence.
How do I centre a div in CSS?
What does the word "ubiquitous" mean?
Give the chemical formula of table salt.
How long does it take to boil an egg?
Solve for x: 3x + 4 = 19.
Which planet is closest to the sun?
What time is it in Tokyo when it is noon in Paris?
Explain how a refrigerator works.
Name three rivers in Germany.
How do I merge two cells in a spreadsheet?
What is the plural of "cactus"?
Write a regular expression that matches a date.
How tall is the Eiffel Tower?
What is the difference between a crocodile and an alligator?
Rewrite this sentence in the passive voice: the dog chased the ball.
How do I install a package from the command line?
What is photosynthesis?
Count the vowels in the word "encyclopaedia".
How do I remove a coffee stain from cotton?
What are the ingredients of pancakes?
Which screw size fits a 6 mm wall plug?
Describe the picture in one line: a cat on a mat.
What is a prime number?
How do I rotate a PDF page?
Who wrote the novel Frankenstein?
What does error 404 mean?
Find the bug in this loop: for i in range(10) print(i)
Complete the text: The train leaves at nine and arrives at
How many grams are in an ounce?
What is the past tense of "swim"?
How do tides come about?
Draw a flow chart of a login page in text.
Which film won best picture in 1998?
What is the square root of 144?
""",
}
"""Prompts by value, one a line."""


def anchors() -> tuple[list[str], list[str]]:
    """Every prompt, and its value."""
    found = [(line, value) for value, lines in ANCHORS.items() for line in lines.strip().splitlines()]
    return [text for text, _ in found], [value for _, value in found]
